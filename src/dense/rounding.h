// Rounds numbers to narrower dtypes.
#ifndef SHARDC_DENSE_ROUNDING_H_
#define SHARDC_DENSE_ROUNDING_H_

#include <cstdint>
#include <span>

#include "model/dtype.h"

namespace shardc::dense {

// Returns the number of F32, F16 or BF16 nearest to x, the even one if two are
// equally near. Returns infinity if x is beyond the largest number by half a
// step or more. For other dtypes it returns x.
double Nearest(Dtype dtype, double x);
void NearestOf(Dtype dtype, std::span<float> x);

// Converts a row to 8-bit integers and returns its scale, the largest |x|,
// which is 127.5 steps. Each number becomes the nearest whole number of steps,
// from -128 to 127. The arithmetic is float32's, or double's if the steps per
// unit overflow float32. A row of zeros has scale 0. A row with a NaN has
// the scale NaN, one with an infinite number and no NaN an infinite scale; all
// integers of such rows are 0.
float ToInt8(std::span<const float> x, std::span<int8_t> integers);
float FromInt8(int8_t integer, float scale);
// Replaces each number of a row by the number that is read back after ToInt8.
void StoreInt8(std::span<float> x);

}  // namespace shardc::dense

#endif  // SHARDC_DENSE_ROUNDING_H_
