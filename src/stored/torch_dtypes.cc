// The table of PyTorch's data types: `float32` is stored in a `FloatStorage` of
// 4 bytes per element and is F32 in safetensors. Types without a storage class
// are stored as bytes of an `UntypedStorage`.
#include "stored/torch_dtypes.h"

#include <algorithm>

namespace shardc::stored {
namespace {

constexpr TorchDtype kTypes[] = {
    {"float32", "FloatStorage", 4, Dtype::kF32},
    {"float64", "DoubleStorage", 8, Dtype::kF64},
    {"float16", "HalfStorage", 2, Dtype::kF16},
    {"bfloat16", "BFloat16Storage", 2, Dtype::kBF16},
    {"int64", "LongStorage", 8, Dtype::kI64},
    {"int32", "IntStorage", 4, Dtype::kI32},
    {"int16", "ShortStorage", 2, Dtype::kI16},
    {"int8", "CharStorage", 1, Dtype::kI8},
    {"uint8", "ByteStorage", 1, Dtype::kU8},
    {"bool", "BoolStorage", 1, Dtype::kBool},
    {"complex64", "ComplexFloatStorage", 8, Dtype::kC64},
    {"complex128", "ComplexDoubleStorage", 16, std::nullopt},
    {"complex32", "", 4, std::nullopt},
    {"uint16", "", 2, Dtype::kU16},
    {"uint32", "", 4, Dtype::kU32},
    {"uint64", "", 8, Dtype::kU64},
    {"float8_e4m3fn", "", 1, Dtype::kF8E4M3},
    {"float8_e5m2", "", 1, Dtype::kF8E5M2},
    {"float8_e8m0fnu", "", 1, Dtype::kF8E8M0},
    {"float8_e4m3fnuz", "", 1, Dtype::kF8E4M3Fnuz},
    {"float8_e5m2fnuz", "", 1, Dtype::kF8E5M2Fnuz},
    // Each element of this type contains two numbers.
    {"float4_e2m1fn_x2", "", 1, std::nullopt},
    {"qint8", "QInt8Storage", 1, std::nullopt},
    {"quint8", "QUInt8Storage", 1, std::nullopt},
    {"qint32", "QInt32Storage", 4, std::nullopt},
};

const TorchDtype* Find(std::string_view TorchDtype::*field,
                       std::string_view text) {
  const auto found =
      std::find_if(std::begin(kTypes), std::end(kTypes),
                   [&](const TorchDtype& type) { return type.*field == text; });
  return found == std::end(kTypes) || text.empty() ? nullptr : found;
}

}  // namespace

std::span<const TorchDtype> TorchDtypes() { return kTypes; }

const TorchDtype* TorchDtypeByName(std::string_view name) {
  return Find(&TorchDtype::name, name);
}

const TorchDtype* TorchDtypeByStorage(std::string_view storage) {
  return Find(&TorchDtype::storage, storage);
}

}  // namespace shardc::stored
