// Implements the correct functions of Arithmetic, the steps of attention that a
// fault injection can replace.
//
// For example, an online softmax has added the keys of the logits 1 and 2. It
// subtracts the largest logit so far, the reference, from every logit. The
// reference is 2 and the sum of the weights is e^-1 + 1 = 1.37. The next logit
// is 4, which becomes the reference. Sum and output are therefore multiplied by
// e^-2, which makes the sum 0.185. The new key has the weight 1, so the sum
// becomes 1.185.
#include "exec/kernels/arithmetic.h"

#include <cmath>

#include "floats/half.h"

namespace shardc::exec {

float CapThenBias(float product, float cap, float bias) {
  if (cap > 0) product = cap * std::tanh(product / cap);
  return product + bias;
}

float TheLargest(float largest) { return largest; }

void RescaleState(float factor, float& sum, std::span<float> out) {
  if (factor == 1) return;
  sum *= factor;
  for (float& x : out) x *= factor;
}

void AbsorbKey(float weight, float kept, const float* value, float& sum,
               std::span<float> out) {
  sum += weight;
  if (kept == 0) return;
  for (size_t d = 0; d < out.size(); ++d) out[d] += kept * value[d];
}

void AbsorbSink(float weight, float& sum, std::span<float> /*out*/) {
  sum += weight;
}

float RoundOnce(Dtype dtype, float x) { return RoundTo(dtype, x); }

float LowestFinite(Dtype dtype) {
  return dtype == Dtype::kF16 ? -65504.0f : -0x1.fep127f;
}

double UnscaledSum(int32_t sum, double query_step, double key_step) {
  return sum * query_step * key_step;
}

float StoreInt8(std::span<const float> x, float largest, std::span<int8_t> q) {
  QuantizeInt8(x, largest, q);
  return largest;
}

float ScaleOf(std::span<const float> scales, size_t row) { return scales[row]; }

bool Arithmetic::InKernels() const {
  const Arithmetic& right = kRightArithmetic;
  return logit == right.logit && reference == right.reference &&
         rescale == right.rescale && absorb == right.absorb;
}

}  // namespace shardc::exec
