// Writes the headers of safetensors files in the same form as the format's own
// library: the metadata come first, and the only spaces are padding.
#ifndef SHARDC_MODEL_SAFETENSORS_HEADER_H_
#define SHARDC_MODEL_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "model/dtype.h"
#include "model/manifest.h"

namespace shardc {

struct HeaderEntry {
  std::string name;
  Dtype dtype = Dtype::kF32;
  Shape shape;
  // The number of bytes of the tensor's data. The data follow the data of the
  // previous entry.
  int64_t bytes = 0;
};

// Returns all bytes of a file before the data: the length, the JSON, and
// padding that aligns the data to `alignment` bytes.
std::string SafetensorsHeaderText(
    const std::vector<HeaderEntry>& entries,
    const std::vector<std::pair<std::string, std::string>>& metadata,
    size_t alignment = 8);

}  // namespace shardc

#endif  // SHARDC_MODEL_SAFETENSORS_HEADER_H_
