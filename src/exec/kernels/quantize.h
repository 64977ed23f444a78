// Rounds rows to integers of few bits, with one scale for each row.
#ifndef SHARDC_EXEC_KERNELS_QUANTIZE_H_
#define SHARDC_EXEC_KERNELS_QUANTIZE_H_

#include <cstdint>
#include <span>
#include <vector>

namespace shardc::exec {

// Converts a row to the int8 format of the cache and returns its scale, max
// |x|. An element is q = rint(x * (127.5/scale)), ties to even, saturated:
// +scale becomes 127, -scale becomes -128. In a finite row |x - q*scale/127.5|
// <= scale/255, also at +scale. A row of zeros has scale 0 and is read as
// zeros. If a row has a NaN or an infinity, its scale is NaN or infinity and
// all its q are 0.
float QuantizeInt8(std::span<const float> x, std::span<int8_t> q);
// The two steps of QuantizeInt8: the scale, and the conversion by a scale. They
// are separate for rows of which several devices hold parts.
float LargestMagnitude(std::span<const float> x);
void QuantizeInt8(std::span<const float> x, float scale, std::span<int8_t> q);
// Returns q * scale / 127.5 + threshold. The Python library eformer adds 1e-6
// by default. Here the default is 0, so that zeros stay zeros.
float DequantizeInt8(int8_t q, float scale, float threshold = 0);

// For quantised matmuls. QuantisedStep returns the step of a row whose largest
// magnitude is `largest`: largest / (2^(bits-1) - 0.5). RoundToBits returns the
// nearest whole number of steps, at most 2^(bits-1) - 1 in magnitude, or 0 if
// the step is 0 or not finite.
double QuantisedStep(double largest, int bits);
int32_t RoundToBits(double x, double step, int bits);

// Returns a copy of x in which each block of `inner` elements is repeated
// `times` times. To repeat heads, `inner` is s*d for [b, h, s, d], and d for
// [b, s, h, d].
std::vector<float> RepeatBlocks(std::span<const float> x, int64_t inner,
                                int64_t times);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_KERNELS_QUANTIZE_H_
