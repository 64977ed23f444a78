// Data types of tensors, spelled as in safetensors.
#ifndef SHARDC_MODEL_DTYPE_H_
#define SHARDC_MODEL_DTYPE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace shardc {

enum class Dtype : uint8_t {
  kBool,
  kU8,
  kI8,
  kI16,
  kU16,
  kI32,
  kU32,
  kI64,
  kU64,
  kF16,
  kBF16,
  kF32,
  kF64,
  kC64,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kI4,
  kU4,
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
};

// Returns the name in safetensors, such as "BF16" or "F8_E4M3".
std::string_view DtypeName(Dtype dtype);
// Returns the number of bits of one element: 8 for BOOL, and 4 or 6 for packed
// types. For ggml's block types, returns the bits of a block divided by its
// elements, rounded up.
int DtypeBits(Dtype dtype);
// Parses a dtype in the spelling of safetensors ("BF16") or numpy ("bfloat16",
// "<f4", "float32"), or an alias such as "half". Returns nullopt for any other
// text, such as the code of a big-endian type.
std::optional<Dtype> ParseDtype(std::string_view text);
std::span<const Dtype> AllDtypes();

// Returns the bytes of `elements` elements, rounded up to whole bytes or to
// whole blocks. Returns nullopt if the number overflows int64_t.
std::optional<int64_t> BytesOf(int64_t elements, Dtype dtype);

}  // namespace shardc

#endif  // SHARDC_MODEL_DTYPE_H_
