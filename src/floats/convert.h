// Directory: floats. Converts single 16-bit floats to float32 and back;
// convert.h converts arrays.
// Its files include headers of these directories: model.
//
// float16 and bfloat16 round to nearest, with ties to even. Subnormal numbers
// are kept, and numbers that are too large become infinity. A NaN stays a NaN
// with its sign and upper payload bits, and becomes quiet except in
// FromBFloat16. Conversions to float are exact. The vector code of convert.h
// has results with the same bits.
#ifndef SHARDC_FLOATS_CONVERT_H_
#define SHARDC_FLOATS_CONVERT_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "model/dtype.h"

namespace shardc {

// Converts arrays of floats from one type to another. Each float is rounded
// once, to nearest with ties to even. The results have the same bits as those
// of the conversions of single numbers.

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

uint16_t Float16Bits(float x);
// Rounds the double directly, and not by way of float, which would round twice.
uint16_t Float16Bits(double x);
float FromFloat16(uint16_t bits);

uint16_t BFloat16Bits(float x);
uint16_t BFloat16Bits(double x);
float FromBFloat16(uint16_t bits);

// Returns the value of `dtype` (F32, F16 or BF16) that is nearest to x, rounded
// once. For other dtypes returns x as a float.
float RoundTo(Dtype dtype, double x);
float RoundTo(Dtype dtype, float x);

// Returns the unit roundoff, the largest relative error of rounding: 2^-11 for
// F16, 2^-8 for BF16, and 2^-24 (that of F32) for any other dtype.
double UnitRoundoff(Dtype dtype);

// Declares the vectorised loops with which convert.cc converts arrays of
// floats. They are compiled for each instruction set, and the program chooses
// one set when it runs. Arrays may have any alignment.

void SimdF16FromF32(const void* in, void* out, size_t count);
void SimdBf16FromF32(const void* in, void* out, size_t count);
void SimdF32FromF16(const void* in, void* out, size_t count);
void SimdF32FromBf16(const void* in, void* out, size_t count);
void SimdF16FromBf16(const void* in, void* out, size_t count);
void SimdBf16FromF16(const void* in, void* out, size_t count);

}  // namespace shardc

#endif  // SHARDC_FLOATS_CONVERT_H_
