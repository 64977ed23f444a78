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

std::string_view DtypeName(Dtype dtype);  // "BF16", "F8_E4M3"
// Returns the bits of one element: 8 for BOOL, 4 or 6 for packed types, and the
// rounded-up mean of a block for ggml's block types.
int DtypeBits(Dtype dtype);
// Parses the spellings of safetensors ("BF16") and numpy ("bfloat16", "<f4",
// "float32"), and aliases such as "half"; nullopt for others, such as
// big-endian types.
std::optional<Dtype> ParseDtype(std::string_view text);
std::span<const Dtype> AllDtypes();

// Returns the bytes of `elements` elements, rounded up to whole bytes or
// blocks; nullopt on overflow of int64_t.
std::optional<int64_t> BytesOf(int64_t elements, Dtype dtype);

}  // namespace shardc

#endif  // SHARDC_MODEL_DTYPE_H_
