// Integers of few bits with one scale a row.
#ifndef SHARDC_EXEC_KERNELS_QUANTIZE_H_
#define SHARDC_EXEC_KERNELS_QUANTIZE_H_

#include <cstdint>
#include <span>
#include <vector>

namespace shardc::exec {

// The cache's form: scale = max |x| and q = rint(x * (127.5/scale)), ties to
// even, saturated: +scale gives 127, -scale gives -128. A row of zeros has
// scale 0 and stays zeros. A row with a NaN has scale NaN.
// |x - q*scale/127.5| <= scale/255, save at +scale (scale/255 too).
float QuantizeInt8(std::span<const float> x, std::span<int8_t> q);
// The two halves of it, for a row that devices share.
float LargestMagnitude(std::span<const float> x);
void QuantizeInt8(std::span<const float> x, float scale, std::span<int8_t> q);
// q * scale / 127.5 + threshold. The reference adds 1e-6 unless told not to;
// nothing here does, so that zeros stay zeros.
float DequantizeInt8(int8_t q, float scale, float threshold = 0);

// Quantised matmuls: a row's integer step, max |x| / (2^(bits-1) - 0.5), and a
// number in steps, at most 2^(bits-1) - 1 of them. 0 for rows of zeros, and for
// those that are not finite: their step is no number.
double QuantisedStep(double largest, int bits);
int32_t CutToBits(double x, double step, int bits);

// Each of the blocks of `inner` elements `times` times in place: repeats the
// heads of [b, h, s, d] with inner = s*d, of [b, s, h, d] with inner = d.
std::vector<float> RepeatBlocks(std::span<const float> x, int64_t inner,
                                int64_t times);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_KERNELS_QUANTIZE_H_
