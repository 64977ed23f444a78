// Declares the steps of attention's arithmetic that fault injection can replace
// by wrong ones. These are the steps of the online softmax, the rounding of
// outputs, and the quantisation of rows to few bits. A run uses the correct
// functions unless its machine replaces them.
//
// The fast kernels (kernels.h) compute the softmax in their own code and do not
// call these functions. If `logit`, `reference`, `rescale` or `absorb` is
// replaced, attention therefore runs in the plain loops.
#ifndef SHARDC_EXEC_KERNELS_ARITHMETIC_H_
#define SHARDC_EXEC_KERNELS_ARITHMETIC_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/dtype.h"

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

float CapThenBias(float product, float cap, float bias);
float TheLargest(float largest);
void RescaleState(float factor, float& sum, std::span<float> out);
void AbsorbKey(float weight, float kept, const float* value, float& sum,
               std::span<float> out);
void AbsorbSink(float weight, float& sum, std::span<float> out);
float RoundOnce(Dtype dtype, float x);
float LowestFinite(Dtype dtype);
double UnscaledSum(int32_t sum, double query_step, double key_step);
float StoreInt8(std::span<const float> x, float largest, std::span<int8_t> q);
float ScaleOf(std::span<const float> scales, size_t row);

struct Arithmetic {
  // Returns the logit of a scaled product: the product is capped, unless `cap`
  // is 0, and the bias is then added.
  float (*logit)(float product, float cap, float bias) = CapThenBias;
  // Returns the reference, the number that is subtracted from logits before
  // exp. The argument is the largest logit so far.
  float (*reference)(float largest) = TheLargest;
  // Multiplies the sum and the output by factor = exp(old - new) when the
  // reference changes.
  void (*rescale)(float factor, float& sum,
                  std::span<float> out) = RescaleState;
  // Adds one key: `weight` to the sum, and `kept` times `value` to the output.
  // `kept` is the weight after dropout.
  void (*absorb)(float weight, float kept, const float* value, float& sum,
                 std::span<float> out) = AbsorbKey;
  // Adds the weight of a sink, an extra logit without a value, to the sum.
  void (*absorb_sink)(float weight, float& sum,
                      std::span<float> out) = AbsorbSink;
  // Rounds an element of the output to its dtype.
  float (*store)(Dtype dtype, float x) = RoundOnce;
  // Returns the number that replaces a finite logit below the range of `dtype`,
  // the dtype of the softmax.
  float (*lowest)(Dtype dtype) = LowestFinite;

  // For quantised matmuls: `largest` returns the number from which a row's step
  // is computed. `unscale` converts a sum of integer products to the units of
  // the operands.
  float (*largest)(std::span<const float> row) = LargestMagnitude;
  double (*unscale)(int32_t sum, double query_step,
                    double key_step) = UnscaledSum;

  // For rows of int8: `quantise` writes a row and returns the scale to be
  // stored. `scale` returns the stored scale of a row.
  float (*quantise)(std::span<const float> x, float largest,
                    std::span<int8_t> q) = StoreInt8;
  float (*scale)(std::span<const float> scales, size_t row) = ScaleOf;

  // Returns true if `logit`, `reference`, `rescale` and `absorb` are the
  // functions that the fast kernels implement.
  bool InKernels() const;
};

inline constexpr Arithmetic kRightArithmetic;

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_KERNELS_ARITHMETIC_H_
