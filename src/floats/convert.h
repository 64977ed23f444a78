// Converts arrays of floats from one type to another. Each float is rounded
// once, to nearest with ties to even. The results have the same bits as those
// of the conversions of single numbers in half.h.
#ifndef SHARDC_FLOATS_CONVERT_H_
#define SHARDC_FLOATS_CONVERT_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "model/dtype.h"

namespace shardc {

// Returns whether `from` is F64, F32, F16 or BF16, and `to` is F32, F16 or
// BF16.
bool CanConvert(Dtype from, Dtype to);

// Converts `count` elements. CanConvert(from, to) must be true. `in` and `out`
// must not overlap, and may have any alignment.
void ConvertFloats(Dtype from, Dtype to, const void* in, void* out,
                   size_t count);

void F32ToBf16(std::span<const float> x, std::span<uint16_t> out);
void Bf16ToF32(std::span<const uint16_t> x, std::span<float> out);
void F32ToF16(std::span<const float> x, std::span<uint16_t> out);
void F16ToF32(std::span<const uint16_t> x, std::span<float> out);

// Rounds each element to a value of `dtype`, which is F16 or BF16. Does nothing
// for other dtypes.
void RoundAll(Dtype dtype, std::span<float> x);

}  // namespace shardc

#endif  // SHARDC_FLOATS_CONVERT_H_
