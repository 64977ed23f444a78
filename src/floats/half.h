// Room: floats. 16-bit floats to float32 and back, one at a time here, many in
// convert.h.
// Includes: model.
//
// float16 and bfloat16 round to nearest, ties to even; subnormals are kept;
// numbers that are too large become infinity; a NaN stays a NaN with its sign
// and upper payload bits, and becomes quiet except in FromBFloat16. Conversions
// to float are exact. The vector code of convert.h gives the same bits.
#ifndef SHARDC_FLOATS_HALF_H_
#define SHARDC_FLOATS_HALF_H_

#include <cstdint>

#include "model/dtype.h"

namespace shardc {

uint16_t Float16Bits(float x);
uint16_t Float16Bits(double x);  // rounds once
float FromFloat16(uint16_t bits);

uint16_t BFloat16Bits(float x);
uint16_t BFloat16Bits(double x);
float FromBFloat16(uint16_t bits);

// Returns the value of F32, F16 or BF16 nearest to x, rounded once. For other
// dtypes returns x as a float.
float RoundTo(Dtype dtype, double x);
float RoundTo(Dtype dtype, float x);

// Returns the unit roundoff: 2^-11 for F16, 2^-8 for BF16, else 2^-24 (F32).
double UnitRoundoff(Dtype dtype);

}  // namespace shardc

#endif  // SHARDC_FLOATS_HALF_H_
