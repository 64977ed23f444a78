#include "exec/kernels/arithmetic.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "exec/machine/random.h"
#include "reference/quantised_matmul.h"

namespace shardc::exec {
namespace {

using reference::Matrix;

std::vector<int> Integers(const std::vector<float>& x) {
  std::vector<int8_t> q(x.size());
  QuantizeInt8(x, q);
  return {q.begin(), q.end()};
}

TEST_CASE("int8 rows equal those worked out by hand") {
  using Row = std::vector<int>;
  CHECK(Integers({0, 0}) == Row{0, 0});
  CHECK(Integers({1, 2}) == Row{64, 127});
  CHECK(Integers({-1, -1}) == Row{-128, -128});
  CHECK(Integers({127.5f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f}) ==
        Row{127, 0, 2, 2, 0, -2});
  // The inverse of the smallest subnormal number overflows.
  CHECK(Integers({0x1p-149f, 0, -0x1p-149f}) == Row{127, 0, -128});
}

TEST_CASE("a zero row stays zero, a NaN is not hidden") {
  std::vector<int8_t> q{7, 7};
  CHECK(QuantizeInt8(std::vector<float>{0, -0.0f}, q) == 0);
  CHECK(q == std::vector<int8_t>{0, 0});
  CHECK(DequantizeInt8(q[0], 0) == 0);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(QuantizeInt8(std::vector<float>{nan, 1}, q)));
  CHECK(std::isnan(QuantizeInt8(std::vector<float>{1, nan}, q)));
}

TEST_CASE("the error is at most scale/255 and float rounding") {
  const Random random(5);
  for (uint64_t row = 0; row < 500; ++row) {
    std::vector<float> x(16);
    for (uint64_t i = 0; i < 16; ++i) {
      x[i] = static_cast<float>(random.Split(row).Normal(i) *
                                std::exp2(static_cast<double>(row % 40) - 20));
    }
    std::vector<int8_t> q(16);
    const float scale = QuantizeInt8(x, q);
    for (size_t i = 0; i < 16; ++i) {
      const double error = std::abs(double{DequantizeInt8(q[i], scale)} - x[i]);
      CHECK(error <= double{scale} * (1.0 / 255 + 0x1p-22));
    }
  }
}

TEST_CASE("quantised matmuls stay inside their tolerance and get near it") {
  const Random random(6);
  const auto normal = [&](int64_t m, int64_t n, uint64_t seed) {
    auto x = Matrix::Zeros(m, n);
    for (size_t i = 0; i < x.data.size(); ++i) {
      x.data[i] = random.Split(seed).Normal(i);
    }
    return x;
  };
  for (const int bits : {8, 4}) {
    double closest = 0;
    for (uint64_t seed = 0; seed < 20; ++seed) {
      Matrix a = normal(5, 32, seed), b = normal(32, 7, seed + 100);
      if (seed == 0) std::fill_n(a.data.begin(), 32, 0.0);
      const auto got = reference::QuantisedMatmul(a, b, bits);
      for (int64_t i = 0; i < 5; ++i) {
        for (int64_t j = 0; j < 7; ++j) {
          double want = 0;
          for (int64_t l = 0; l < 32; ++l) {
            want += a.data[i * 32 + l] * b.data[l * 7 + j];
          }
          const double error = std::abs(got.product.data[i * 7 + j] - want);
          const double bound = got.tolerance.data[i * 7 + j];
          CHECK(error <= bound);
          if (bound > 0) closest = std::max(closest, error / bound);
        }
      }
    }
    CHECK(closest > 0.1);
  }
}

TEST_CASE("a product in 4 bits equals the one worked out by hand") {
  // The step of a is 7.5/7.5 = 1: 7.5 becomes 7, the largest integer, 2.5
  // becomes 2 and 3.5 becomes 4.
  const Matrix a{1, 3, {7.5, 2.5, 3.5}};
  const Matrix b{3, 1, {1, 1, -15}};
  // The step of b is 2: 0.5 becomes 0 and -7.5 becomes -7.
  const auto got = reference::QuantisedMatmul(a, b, 4);
  CHECK(got.product.data[0] == 4 * -7 * 2);
  CHECK(got.tolerance.data[0] == 13.5 * 1 + 17 * 0.5 + 3 * 0.5);
}

TEST_CASE("heads are repeated in place") {
  const std::vector<float> x{1, 2, 3, 4};
  CHECK(RepeatBlocks(x, 2, 2) == std::vector<float>{1, 2, 1, 2, 3, 4, 3, 4});
  CHECK(RepeatBlocks(x, 1, 1) == x);
}

}  // namespace
}  // namespace shardc::exec
