// Computes a quantised matmul. Every row of one matrix and every column of the
// other is rounded to integers with a step of its own. The products of the
// integers are summed exactly.
//
//   [7.5, 2.5] in 4 bits  ->  step 1, 7 and 2
#include "reference/quantised_matmul.h"

#include <algorithm>
#include <cmath>

#include "exec/kernels/arithmetic.h"

namespace shardc::reference {
namespace {

// One operand: `rows` rows of `count` elements, strided.
struct Quantized {
  std::vector<int64_t> q;     // [rows, count]
  std::vector<double> step;   // [rows]: one integer step, 0 for zeros
  std::vector<double> total;  // [rows]: sum of |x|
};

Quantized QuantizeRows(const Matrix& x, int64_t rows, int64_t count,
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
    out.step[r] = exec::QuantisedStep(largest, bits);
    for (int64_t i = 0; i < count; ++i) {
      out.q[r * count + i] = exec::RoundToBits(
          x.data[r * row_stride + i * stride], out.step[r], bits);
    }
  }
  return out;
}

}  // namespace

// With a' = a + da, |da| <= step/2 and the same for b, |a'.b' - a.b| is at most
// sum |a| * |db| + sum |b| * |da| + k * |da| * |db|.
QuantisedProduct QuantisedMatmul(const Matrix& a, const Matrix& b, int bits) {
  const int64_t m = a.rows, k = a.columns, n = b.columns;
  const Quantized rows = QuantizeRows(a, m, k, k, 1, bits);
  const Quantized columns = QuantizeRows(b, n, k, 1, n, bits);
  QuantisedProduct out{Matrix::Zeros(m, n), Matrix::Zeros(m, n)};
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

}  // namespace shardc::reference
