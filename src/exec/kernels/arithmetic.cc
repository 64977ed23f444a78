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

#include <algorithm>
#include <cmath>

#include "floats/convert.h"
#include "source/size.h"

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

// Rounds the numbers of each row to integers, which are multiplied by the row's
// step when they are read. For int8, the stored scale is the row's largest
// magnitude, which is 127.5 steps. The integers then use the full range from
// -128 to 127. Quantised matmuls use a range that is symmetric around zero. A
// row of zeros has step 0. For example, a row in int8:
//
//   [1, -0.5]  ->  scale 1, integers 127 and -64  ->  read as 0.996 and -0.502

double QuantisedStep(double largest, int bits) {
  return largest / (std::ldexp(1.0, bits - 1) - 0.5);
}

int32_t RoundToBits(double x, double step, int bits) {
  if (!(step > 0) || !std::isfinite(step)) return 0;
  const double top = std::ldexp(1.0, bits - 1) - 1;
  return static_cast<int32_t>(std::clamp(std::nearbyint(x / step), -top, top));
}

float LargestMagnitude(std::span<const float> x) {
  float largest = 0;
  for (float value : x) {
    const float size = std::fabs(value);
    if (!(size <= largest)) largest = size;  // also true if `size` is NaN
    if (std::isnan(largest)) break;
  }
  return largest;
}

float QuantizeInt8(std::span<const float> x, std::span<int8_t> q) {
  const float scale = LargestMagnitude(x);
  QuantizeInt8(x, scale, q);
  return scale;
}

void QuantizeInt8(std::span<const float> x, float scale, std::span<int8_t> q) {
  std::fill(q.begin(), q.end(), int8_t{0});
  if (scale == 0 || !std::isfinite(scale)) return;
  const float factor = 127.5f / scale;
  for (size_t i = 0; i < x.size(); ++i) {
    // The inverse of a very small scale overflows, so such a row is divided by
    // its scale instead of multiplied by the inverse.
    const double value = std::isfinite(factor)
                             ? double{x[i] * factor}
                             : double{x[i]} * 127.5 / double{scale};
    q[i] =
        static_cast<int8_t>(std::clamp(std::nearbyint(value), -128.0, 127.0));
  }
}

float DequantizeInt8(int8_t q, float scale, float threshold) {
  return static_cast<float>(q) * scale / 127.5f + threshold;
}

std::vector<float> RepeatBlocks(std::span<const float> x, int64_t inner,
                                int64_t times) {
  std::vector<float> out;
  out.reserve(x.size() * AsIndex(times));
  for (size_t at = 0; at < x.size(); at += AsIndex(inner)) {
    const auto block = x.subspan(at, AsIndex(inner));
    for (int64_t i = 0; i < times; ++i) {
      out.insert(out.end(), block.begin(), block.end());
    }
  }
  return out;
}

}  // namespace shardc::exec
