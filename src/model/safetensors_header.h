// Writes safetensors headers in the form that the format's own library writes:
// metadata first, no spaces except padding.
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
  int64_t bytes = 0;  // entries are contiguous
};

// Returns the bytes before the data: length, JSON, padding to `alignment`.
std::string SafetensorsHeaderText(
    const std::vector<HeaderEntry>& entries,
    const std::vector<std::pair<std::string, std::string>>& metadata,
    size_t alignment = 8);

}  // namespace shardc

#endif  // SHARDC_MODEL_SAFETENSORS_HEADER_H_
