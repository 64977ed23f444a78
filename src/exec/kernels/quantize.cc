// Rounds the numbers of each row to integers, which are multiplied by the row's
// step when they are read. For int8, the stored scale is the row's largest
// magnitude, which is 127.5 steps. The integers then use the full range from
// -128 to 127. Quantised matmuls use a range that is symmetric around zero. A
// row of zeros has step 0. For example, a row in int8:
//
//   [1, -0.5]  ->  scale 1, integers 127 and -64  ->  read as 0.996 and -0.502
#include "exec/kernels/quantize.h"

#include <algorithm>
#include <cmath>

#include "source/index.h"

namespace shardc::exec {

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
