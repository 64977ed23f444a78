// Room: floats. 16-bit floats to float32 and back, one at a time here, many in
// convert.h. Knows model.
//
// float16 and bfloat16: values between nearest neighbours go to the nearer,
// ties to the even one; subnormals are kept; too large is infinity; a NaN
// stays one, quiet, with its sign and upper payload bits. Conversions to float
// are exact. convert.h's vector code gives the same bits.
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

// The value of F32, F16 or BF16 nearest to x, rounded once. Other dtypes: x
// as float.
float RoundTo(Dtype dtype, double x);
float RoundTo(Dtype dtype, float x);

// Unit roundoff: 2^-24, 2^-11, 2^-8.
double UnitRoundoff(Dtype dtype);

}  // namespace shardc

#endif  // SHARDC_FLOATS_HALF_H_
