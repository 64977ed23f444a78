// PyTorch's data types: their names, sizes and counterparts in safetensors.
#ifndef SHARDC_STORED_TORCH_DTYPES_H_
#define SHARDC_STORED_TORCH_DTYPES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "model/dtype.h"

namespace shardc::stored {

struct TorchDtype {
  std::string_view name;       // name in the module `torch`
  std::string_view storage;    // storage class in archives; may be empty
  int64_t bytes = 0;           // bytes of one element
  std::optional<Dtype> dtype;  // nullopt: shardc has no such type
};

std::span<const TorchDtype> TorchDtypes();
// Both functions return null if the name belongs to no type.
const TorchDtype* TorchDtypeByName(std::string_view name);
const TorchDtype* TorchDtypeByStorage(std::string_view storage);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_TORCH_DTYPES_H_
