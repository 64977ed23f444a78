// Compares the elementwise kernels of every target (instruction set) with plain
// arithmetic.

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "exec/kernels/arithmetic.h"
#include "exec/kernels/kernels.h"

namespace shardc::exec {
namespace {

class EachTarget {
 public:
  ~EachTarget() { UseKernelTarget(""); }
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<std::string> names_ = KernelTargets();
};

// Returns the error in units of the result's last place: the distance between
// float32 numbers at the exact value, at least 2^-149.
double UlpError(float got, double exact) {
  const double largest = static_cast<double>(std::numeric_limits<float>::max());
  if (exact > largest) {
    // From half a step above the largest number on, the result must be
    // infinity.
    if (std::isinf(got)) return 0;
    exact = std::min(exact, 2 * largest);
  }
  if (std::isinf(got)) return 1e9;
  const int exponent = std::max(exact == 0 ? -200 : std::ilogb(exact), -126);
  return std::abs(static_cast<double>(got) - exact) /
         std::ldexp(1.0, exponent - 23);
}

struct ExpErrors {
  double all = 0;           // Exp
  double non_positive = 0;  // ExpNonPositive where the result is normal
  double flushed = 0;       // its largest error below 2^-126, in 2^-126
};

// Measures the error of exp for the numbers whose bit patterns are first, first
// + step, and so on.
void MeasureExp(uint64_t first, uint64_t step, ExpErrors& worst) {
  constexpr size_t kBatch = 1 << 12;
  std::vector<float> x;
  std::vector<float> y(kBatch);
  std::vector<float> z(kBatch);
  for (uint64_t bits = first; bits < uint64_t{1} << 32;) {
    x.clear();
    for (; x.size() < kBatch && bits < uint64_t{1} << 32; bits += step) {
      x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    }
    const auto in = std::span<const float>(x);
    Exp(in, std::span(y).first(x.size()));
    ExpNonPositive(in, std::span(z).first(x.size()));
    for (size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(x[i])) {
        if (!std::isnan(y[i])) worst.all = 1e9;
        continue;
      }
      // For large arguments std::exp returns infinity or (nearly) 0, which is
      // also the exact result in float32.
      const double exact = std::exp(static_cast<double>(x[i]));
      worst.all = std::max(worst.all, UlpError(y[i], exact));
      if (x[i] > 0) continue;
      if (exact >= 0x1p-126) {
        worst.non_positive =
            std::max(worst.non_positive, UlpError(z[i], exact));
      } else {
        worst.flushed =
            std::max(worst.flushed,
                     std::abs(static_cast<double>(z[i]) - exact) / 0x1p-126);
      }
    }
  }
}

void CheckExp(uint64_t step) {
  const EachTarget targets;
  for (const std::string& target : targets.names()) {
    CAPTURE(target);
    REQUIRE(UseKernelTarget(target));
    ExpErrors worst;
    MeasureExp(0, step, worst);
    MESSAGE(target << ": exp " << worst.all << " ulp, for x <= 0 "
                   << worst.non_positive << ", flushed " << worst.flushed);
    CHECK(worst.all <= kExpMaxUlp);
    CHECK(worst.non_positive <= kExpMaxUlp);
    CHECK(worst.flushed <= 1);
    const float ends[] = {0.0f, -0.0f, std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()};
    float y[4];
    Exp(ends, y);
    CHECK(y[0] == 1);
    CHECK(y[1] == 1);
    CHECK(std::isinf(y[2]));
    CHECK(y[3] == 0);
    ExpNonPositive(std::span(ends).first(2), std::span(y).first(2));
    CHECK(y[0] == 1);
    CHECK(y[1] == 1);
  }
}

TEST_CASE("exp is as exact as stated, on a sample") { CheckExp(1009); }

// Takes about two minutes for each target; run with --no-skip.
TEST_CASE("exp is as exact as stated, on every float32" * doctest::skip()) {
  CheckExp(1);
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST_CASE("sums, maxima and rotary give the same bits on every target") {
  const EachTarget targets;
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for (const size_t size : {2u, 6u, 16u, 34u, 1000u}) {
    std::vector<float> x(size);
    std::vector<float> y(size);
    std::vector<float> cos(size / 2);
    std::vector<float> sin(size / 2);
    for (float& v : x) v = normal(random);
    for (float& v : y) v = normal(random);
    for (size_t i = 0; i < size / 2; ++i) {
      cos[i] = std::cos(static_cast<float>(i));
      sin[i] = std::sin(static_cast<float>(i));
    }
    y[1] = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> sum = y;
    std::vector<float> max = y;
    std::vector<float> halves = x;
    std::vector<float> pairs = x;
    for (size_t i = 0; i < size; ++i) {
      sum[i] = y[i] + x[i];
      max[i] = std::isnan(y[i]) || y[i] >= x[i] ? y[i] : x[i];
    }
    for (size_t i = 0; i < size / 2; ++i) {
      const size_t j = i + size / 2;
      halves[i] = x[i] * cos[i] - x[j] * sin[i];
      halves[j] = x[j] * cos[i] + x[i] * sin[i];
      const float a = x[2 * i];
      const float b = x[2 * i + 1];
      pairs[2 * i] = a * cos[i] - b * sin[i];
      pairs[2 * i + 1] = b * cos[i] + a * sin[i];
    }
    for (const std::string& target : targets.names()) {
      CAPTURE(target);
      CAPTURE(size);
      REQUIRE(UseKernelTarget(target));
      std::vector<float> got = y;
      AddInto(x, got);
      CHECK(SameBits(got, sum));
      got = y;
      MaxInto(x, got);
      CHECK(SameBits(got, max));
      got = x;
      Rotate(got, cos, sin, false);
      CHECK(SameBits(got, halves));
      got = x;
      Rotate(got, cos, sin, true);
      CHECK(SameBits(got, pairs));
    }
  }
}

TEST_CASE_TEMPLATE(
    "products of matrices are those of plain loops on every target", Number,
    float, double) {
  constexpr size_t kSides[] = {1, 3, 4, 9, 33, 70};
  std::mt19937 random(5);
  std::normal_distribution<Number> normal;
  const EachTarget targets;
  for (const std::string& target : targets.names()) {
    REQUIRE(UseKernelTarget(target));
    for (const size_t rows : kSides) {
      for (const size_t columns : kSides) {
        for (const size_t inner : {size_t{1}, size_t{17}}) {
          std::vector<Number> a(rows * inner), b(inner * columns);
          for (Number& x : a) x = normal(random);
          for (Number& x : b) x = normal(random);
          std::vector<Number> want(rows * columns, Number{0.5}), got = want;
          for (size_t m = 0; m < rows; ++m) {
            for (size_t k = 0; k < inner; ++k) {
              for (size_t n = 0; n < columns; ++n) {
                want[m * columns + n] += a[m * inner + k] * b[k * columns + n];
              }
            }
          }
          MultiplyInto(std::span<const Number>(a), std::span<const Number>(b),
                       {rows, columns, inner}, std::span<Number>(got));
          CHECK(want == got);
        }
      }
    }
  }
}

TEST_CASE("a NaN survives the maximum from either side") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& [a, b] : {std::pair{nan, 1.0f}, std::pair{1.0f, nan}}) {
    std::vector<float> x(20, a);
    std::vector<float> into(20, b);
    MaxInto(x, into);
    for (const float v : into) CHECK(std::isnan(v));
  }
}

}  // namespace
}  // namespace shardc::exec
