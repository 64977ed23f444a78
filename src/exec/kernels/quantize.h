// Rows quantised to integers of few bits, with one scale a row.
#ifndef SHARDC_EXEC_KERNELS_QUANTIZE_H_
#define SHARDC_EXEC_KERNELS_QUANTIZE_H_

#include <cstdint>
#include <span>
#include <vector>

namespace shardc::exec {

// The cache's format: scale = max |x| and q = rint(x * (127.5/scale)), ties to
// even, saturated: +scale gives 127, -scale gives -128. A row of zeros has
// scale 0 and is read as zeros. A row with a NaN has scale NaN. |x -
// q*scale/127.5| <= scale/255, also at +scale.
float QuantizeInt8(std::span<const float> x, std::span<int8_t> q);
// The two steps of QuantizeInt8, for a row that several devices share.
float LargestMagnitude(std::span<const float> x);
void QuantizeInt8(std::span<const float> x, float scale, std::span<int8_t> q);
// Returns q * scale / 127.5 + threshold. The reference system adds 1e-6 by
// default; shardc adds nothing, so zeros stay zeros.
float DequantizeInt8(int8_t q, float scale, float threshold = 0);

// Quantised matmuls: returns a row's integer step, max |x| / (2^(bits-1) -
// 0.5), and a number in steps, at most 2^(bits-1) - 1. The step is 0 for rows
// of zeros and for rows that are not finite.
double QuantisedStep(double largest, int bits);
int32_t RoundToBits(double x, double step, int bits);

// Repeats each block of `inner` elements `times` times in place: the heads of
// [b, h, s, d] with inner = s*d, of [b, s, h, d] with inner = d.
std::vector<float> RepeatBlocks(std::span<const float> x, int64_t inner,
                                int64_t times);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_KERNELS_QUANTIZE_H_
