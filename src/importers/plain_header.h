// A fast reader of common safetensors headers. It builds no JsonDocument, and
// allocates no memory for single tensors.
#ifndef SHARDC_IMPORTERS_PLAIN_HEADER_H_
#define SHARDC_IMPORTERS_PLAIN_HEADER_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "model/manifest.h"

namespace shardc {

struct PlainHeader {
  struct Entry {
    std::string_view name;  // a view into the header's text
    uint32_t type = 0;      // index into PlainHeader::types
    int64_t begin = 0, end = 0;
  };
  std::vector<Entry> entries;
  std::vector<TensorType> types;
  std::vector<std::pair<std::string_view, std::string_view>> metadata;
  std::vector<uint32_t> by_name;  // indices of the entries, sorted by name
};

// Returns the contents of a header that is written as usual, which is the same
// as what the full reader (safetensors.h) returns. Returns nullopt for any
// other text, even if it is a valid header: the full reader then reads it.
// `data_size` is the number of bytes after the header, or nullopt if the file
// lacks its data.
std::optional<PlainHeader> ReadPlainHeader(std::string_view json,
                                           std::optional<int64_t> data_size);

}  // namespace shardc

#endif  // SHARDC_IMPORTERS_PLAIN_HEADER_H_
