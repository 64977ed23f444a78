// Ordinary safetensors headers, straight from the text: no tape, and nothing
// allocated for each tensor.
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
    std::string_view name;  // in the text
    uint32_t type = 0;      // index into `types`
    int64_t begin = 0, end = 0;
  };
  std::vector<Entry> entries;
  std::vector<TensorType> types;
  std::vector<std::pair<std::string_view, std::string_view>> metadata;
  std::vector<uint32_t> by_name;  // numbers of the entries
};

// What the full reader makes of such a header's JSON; nothing where it is
// another, be it right or wrong. `data_size`: of the data, where it is there.
std::optional<PlainHeader> ReadPlainHeader(std::string_view json,
                                           std::optional<int64_t> data_size);

}  // namespace shardc

#endif  // SHARDC_IMPORTERS_PLAIN_HEADER_H_
