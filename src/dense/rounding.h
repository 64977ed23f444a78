// Rounds numbers to narrower dtypes, and rows of numbers to 8-bit integers.
#ifndef SHARDC_DENSE_ROUNDING_H_
#define SHARDC_DENSE_ROUNDING_H_

#include <cstdint>
#include <span>

#include "model/dtype.h"

namespace shardc::dense {

// Returns the number of F32, F16 or BF16 that is nearest to x; the even one if
// two are equally near. Returns infinity if x exceeds the largest number by
// half a step or more. For any other dtype, returns x.
double Nearest(Dtype dtype, double x);
void NearestOf(Dtype dtype, std::span<float> x);

// Converts a row to 8-bit integers and returns its scale, which is the largest
// |x|. A step is scale / 127.5. Each number becomes the nearest whole number of
// steps, from -128 to 127. The arithmetic is in float32, or in double if the
// number of steps from 0 to 1 overflows float32. The scale of a row of zeros is
// 0. A row with a NaN has the scale NaN. A row with an infinite number but no
// NaN has an infinite scale. All integers of these rows are 0.
float ToInt8(std::span<const float> x, std::span<int8_t> integers);
float FromInt8(int8_t integer, float scale);
// Replaces each number of a row by the number that is read back after ToInt8().
void StoreInt8(std::span<float> x);

}  // namespace shardc::dense

#endif  // SHARDC_DENSE_ROUNDING_H_
