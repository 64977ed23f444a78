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

#include "exec/kernels/quantize.h"
#include "model/dtype.h"

namespace shardc::exec {

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
