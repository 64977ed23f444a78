// Rounding to a row's own steps. int8 keeps the largest magnitude as a float
// and lets it be 127.5 steps, so that both ends are used; quantised matmuls
// use as many steps on either side. A row of zeros has no step.
//
//   [1, -0.5]  ->  scale 1, 127 and -64  ->  0.996 and -0.502
#include "exec/kernels/quantize.h"

#include <algorithm>
#include <cmath>

namespace shardc::exec {
namespace {

// One operand of DotBits: `rows` rows of `count` elements, strided.
struct Quantized {
  std::vector<int64_t> q;     // [rows, count]
  std::vector<double> step;   // [rows]: one integer step, 0 for zeros
  std::vector<double> total;  // [rows]: sum of |x|
};

Quantized QuantizeRows(const DenseArray& x, int64_t rows, int64_t count,
                       int64_t row_stride, int64_t stride, int bits) {
  Quantized out{std::vector<int64_t>(rows * count, 0),
                std::vector<double>(rows, 0), std::vector<double>(rows, 0)};
  for (int64_t r = 0; r < rows; ++r) {
    double largest = 0;
    for (int64_t i = 0; i < count; ++i) {
      const double size = std::fabs(x.data[r * row_stride + i * stride]);
      largest = std::max(largest, size);
      out.total[r] += size;
    }
    if (largest == 0) continue;
    out.step[r] = QuantisedStep(largest, bits);
    for (int64_t i = 0; i < count; ++i) {
      out.q[r * count + i] =
          CutToBits(x.data[r * row_stride + i * stride], out.step[r], bits);
    }
  }
  return out;
}

}  // namespace

double QuantisedStep(double largest, int bits) {
  return largest / (std::ldexp(1.0, bits - 1) - 0.5);
}

int32_t CutToBits(double x, double step, int bits) {
  if (!(step > 0) || !std::isfinite(step)) return 0;
  const double top = std::ldexp(1.0, bits - 1) - 1;
  return static_cast<int32_t>(std::clamp(std::nearbyint(x / step), -top, top));
}

float LargestMagnitude(std::span<const float> x) {
  float largest = 0;
  for (float value : x) {
    const float size = std::fabs(value);
    if (!(size <= largest)) largest = size;  // a NaN sticks: none is <= it
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
    // A subnormal scale has no finite inverse: divide there.
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

// With a' = a + da, |da| <= step/2 and b alike, |a'.b' - a.b| is at most
// sum |a| * |db| + sum |b| * |da| + k * |da| * |db|.
QuantisedProduct QuantisedMatmul(const DenseArray& a, const DenseArray& b,
                                 int bits) {
  const int64_t m = a.dim(0), k = a.dim(1), n = b.dim(1);
  const Quantized rows = QuantizeRows(a, m, k, k, 1, bits);
  const Quantized columns = QuantizeRows(b, n, k, 1, n, bits);
  QuantisedProduct out{DenseArray::Zeros({m, n}), DenseArray::Zeros({m, n})};
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      int64_t sum = 0;
      for (int64_t l = 0; l < k; ++l) {
        sum += rows.q[i * k + l] * columns.q[j * k + l];
      }
      out.product.data[i * n + j] =
          static_cast<double>(sum) * rows.step[i] * columns.step[j];
      const double da = rows.step[i] / 2, db = columns.step[j] / 2;
      out.tolerance.data[i * n + j] = rows.total[i] * db +
                                      columns.total[j] * da +
                                      static_cast<double>(k) * da * db;
    }
  }
  return out;
}

std::vector<float> RepeatBlocks(std::span<const float> x, int64_t inner,
                                int64_t times) {
  std::vector<float> out;
  out.reserve(x.size() * static_cast<size_t>(times));
  for (size_t at = 0; at < x.size(); at += static_cast<size_t>(inner)) {
    const auto block = x.subspan(at, static_cast<size_t>(inner));
    for (int64_t i = 0; i < times; ++i) {
      out.insert(out.end(), block.begin(), block.end());
    }
  }
  return out;
}

}  // namespace shardc::exec
