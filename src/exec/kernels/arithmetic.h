// The points of attention's arithmetic at which another order, another dtype
// or another row would give another result, under one name each: an online
// softmax, its rounding, and rows that are kept in few bits. A program takes
// the right one unless its machine carries another.
//
// The fast kernels have the right softmax built in; only loops ask.
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
  // The logit of a scaled product: capped (cap 0: not), then biased.
  float (*logit)(float product, float cap, float bias) = CapThenBias;
  // What logits are taken relative to before exp, of the largest so far.
  float (*reference)(float largest) = TheLargest;
  // What was absorbed, under a new reference: factor = exp(old - new).
  void (*rescale)(float factor, float& sum,
                  std::span<float> out) = RescaleState;
  // One key: its weight joins the sum, `kept` times its value the output.
  void (*absorb)(float weight, float kept, const float* value, float& sum,
                 std::span<float> out) = AbsorbKey;
  // A sink joins the sum, and has no value.
  void (*absorb_sink)(float weight, float& sum,
                      std::span<float> out) = AbsorbSink;
  // An output's number in the output's dtype.
  float (*store)(Dtype dtype, float x) = RoundOnce;
  // A finite logit that the softmax's dtype has no finite number for.
  float (*lowest)(Dtype dtype) = LowestFinite;

  // Quantised matmuls: what a row's step is taken from, and a sum of integer
  // products in the operands' units.
  float (*largest)(std::span<const float> row) = LargestMagnitude;
  double (*unscale)(int32_t sum, double query_step,
                    double key_step) = UnscaledSum;

  // Rows of int8: writes a row and gives the scale that is stored with it;
  // finds the scale of a row that is read.
  float (*quantise)(std::span<const float> x, float largest,
                    std::span<int8_t> q) = StoreInt8;
  float (*scale)(std::span<const float> scales, size_t row) = ScaleOf;

  // Whether its softmax is the fast kernels'.
  bool InKernels() const;
};

inline constexpr Arithmetic kRightArithmetic;

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_KERNELS_ARITHMETIC_H_
