// Computes a quantised matmul, and a bound on the error that its number of bits
// causes.
#ifndef SHARDC_TESTS_REFERENCE_QUANTISED_MATMUL_H_
#define SHARDC_TESTS_REFERENCE_QUANTISED_MATMUL_H_

#include <cstdint>
#include <vector>

namespace shardc::reference {

struct Matrix {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<double> data;  // row-major

  static Matrix Zeros(int64_t rows, int64_t columns) {
    return {rows, columns, std::vector<double>(rows * columns, 0.0)};
  }
};

// A matmul whose operands were rounded to `bits` (8 or 4). Each row of
// `a` [m, k] and each column of `b` [k, n] has its own scale, max |x| /
// (2^(bits-1) - 0.5), and symmetric integers up to 2^(bits-1) - 1. Their
// products are summed exactly.
struct QuantisedProduct {
  Matrix product;    // [m, n]
  Matrix tolerance;  // [m, n]: how far the bits can take it from a.b
};
QuantisedProduct QuantisedMatmul(const Matrix& a, const Matrix& b, int bits);

}  // namespace shardc::reference

#endif  // SHARDC_TESTS_REFERENCE_QUANTISED_MATMUL_H_
