// Numbers as few bits keep them.
#ifndef SHARDC_DENSE_ROUNDING_H_
#define SHARDC_DENSE_ROUNDING_H_

#include <cstdint>
#include <span>

#include "model/dtype.h"

namespace shardc::dense {

// The number of F32, F16 or BF16 nearest to x, of two the even one; beyond the
// largest by half a step or more, infinity. Other dtypes leave x.
double Nearest(Dtype dtype, double x);
void NearestOf(Dtype dtype, std::span<float> x);

// A row as integers of 8 bits: its scale is the largest |x|, which is 127.5
// steps, and each number is the nearest integer of steps, from -128 to 127.
// The arithmetic is float32's; a row of zeros has scale 0.
float ToInt8(std::span<const float> x, std::span<int8_t> integers);
float FromInt8(int8_t integer, float scale);
// What is left of a row that was stored so.
void StoreInt8(std::span<float> x);

}  // namespace shardc::dense

#endif  // SHARDC_DENSE_ROUNDING_H_
