// Writes the tensors of a run as one safetensors file, each in its own dtype.
#ifndef SHARDC_EMIT_VERIFY_TENSOR_FILE_H_
#define SHARDC_EMIT_VERIFY_TENSOR_FILE_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exec/machine/buffer.h"
#include "model/dtype.h"
#include "model/manifest.h"
#include "model/safetensors_header.h"

namespace shardc {

// Returns a number with leading zeros (`0007`), so that names sort by number.
std::string DumpNumber(size_t index);

class TensorFile {
 public:
  void Add(std::string_view name, const exec::Buffer& buffer);
  void Add(std::string_view name, const std::optional<exec::Buffer>& buffer);
  // Adds a tensor of float64 values.
  void Add(std::string_view name, const Shape& shape,
           const std::vector<double>& data);

  std::string Take();

 private:
  void Add(std::string_view name, Dtype dtype, const Shape& shape,
           const std::string& bytes);

  std::vector<HeaderEntry> entries_;
  std::string data_;
};

}  // namespace shardc

#endif  // SHARDC_EMIT_VERIFY_TENSOR_FILE_H_
