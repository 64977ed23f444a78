#include "floats/oracle.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

namespace shardc::oracle {
namespace {

// Finds the nearest value of a 16-bit format, for ties the one with the even
// code, by a search among all values of the format instead of arithmetic on
// bits.
class Nearest {
 public:
  // `values` has the values of all finite codes that are not negative, in
  // order; `limit` is the value that the next code would have.
  Nearest(const std::vector<double>& values, double limit)
      : values_(values), limit_(limit) {}

  // Returns the code of the value nearest to a magnitude. values_.size() is the
  // code of infinity.
  uint32_t CodeOf(double magnitude) const {
    const auto above =
        std::lower_bound(values_.begin(), values_.end(), magnitude);
    const auto high = static_cast<uint32_t>(above - values_.begin());
    const double upper = high < values_.size() ? values_[high] : limit_;
    if (high == 0 || magnitude == upper) return high;
    const double to_low = magnitude - values_[high - 1];
    const double to_high = upper - magnitude;
    if (to_low != to_high) return to_low < to_high ? high - 1 : high;
    return high % 2 == 0 ? high : high - 1;
  }

 private:
  std::vector<double> values_;
  double limit_;
};

double Value(int exponent_bits, int fraction_bits, uint32_t code) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto exponent = static_cast<int>(code >> fraction_bits);
  const uint32_t fraction = code & ((1u << fraction_bits) - 1);
  if (exponent == 0) {
    return std::ldexp(static_cast<double>(fraction), 1 - bias - fraction_bits);
  }
  return std::ldexp(static_cast<double>(fraction + (1u << fraction_bits)),
                    exponent - bias - fraction_bits);
}

Nearest MakeNearest(int exponent_bits, int fraction_bits) {
  const uint32_t infinity = ((1u << exponent_bits) - 1) << fraction_bits;
  std::vector<double> values;
  for (uint32_t code = 0; code < infinity; ++code) {
    values.push_back(Value(exponent_bits, fraction_bits, code));
  }
  return {values, Value(exponent_bits, fraction_bits, infinity)};
}

std::vector<double> Interesting() {
  std::vector<double> out = {0.0,
                             1.0,
                             65504.0,
                             65519.99,
                             65520.0,
                             65536.0,
                             5.9604644775390625e-8,
                             2.98023223876953125e-8,
                             2.9802322387695316e-8,
                             6.103515625e-05,
                             3.3895313892515355e38,
                             3.4e38,
                             1e-45,
                             1e-40};
  std::mt19937_64 random(1);
  for (int i = 0; i < 200000; ++i) {
    const auto exponent = static_cast<int>(random() % 320) - 160;
    out.push_back(std::ldexp(
        1.0 + static_cast<double>(random() >> 11) * 0x1p-53, exponent));
  }
  // Numbers halfway between neighbours of either format, and the numbers next
  // to these.
  for (int i = 0; i < 20000; ++i) {
    const uint32_t h = static_cast<uint32_t>(random() % 0x7BFF);
    const uint32_t b = static_cast<uint32_t>(random() % 0x7F7F);
    for (const double tie : {(Value(5, 10, h) + Value(5, 10, h + 1)) / 2,
                             (Value(8, 7, b) + Value(8, 7, b + 1)) / 2}) {
      out.push_back(tie);
      out.push_back(std::nextafter(tie, 0.0));
      out.push_back(std::nextafter(tie, 1e300));
    }
  }
  return out;
}

TEST_CASE("narrowing is to the nearest, ties to even") {
  const Nearest half = MakeNearest(5, 10);
  const Nearest brain = MakeNearest(8, 7);
  for (const double value : Interesting()) {
    const auto bits64 = std::bit_cast<uint64_t>(value);
    const auto narrow = static_cast<float>(value);
    const auto bits32 = std::bit_cast<uint32_t>(narrow);
    CHECK(Float32FromFloat64(bits64) == bits32);
    CHECK(Float16FromFloat64(bits64) == half.CodeOf(value));
    CHECK(Bfloat16FromFloat64(bits64) == brain.CodeOf(value));
    CHECK(Float16FromFloat32(bits32) == half.CodeOf(narrow));
    CHECK(Bfloat16FromFloat32(bits32) == brain.CodeOf(narrow));
    CHECK(Float16FromFloat32(bits32 | 0x80000000u) ==
          (half.CodeOf(narrow) | 0x8000u));
  }
}

TEST_CASE("every 16-bit value widens and converts back") {
  for (uint32_t code = 0; code < 0x10000; ++code) {
    const auto bits = static_cast<uint16_t>(code);
    const uint32_t wide = Float32FromFloat16(bits);
    const bool nan = (code & 0x7C00) == 0x7C00 && (code & 0x3FF) != 0;
    if (nan) {
      CHECK(std::isnan(std::bit_cast<float>(wide)));
      CHECK(Float16FromFloat32(wide) == (bits | 0x200));
    } else {
      CHECK(Float16FromFloat32(wide) == bits);
      if ((code & 0x7FFF) < 0x7C00) {
        CHECK(std::fabs(std::bit_cast<float>(wide)) ==
              Value(5, 10, code & 0x7FFF));
      }
    }
    const bool brain_nan = (code & 0x7F80) == 0x7F80 && (code & 0x7F) != 0;
    CHECK(Bfloat16FromFloat32(Float32FromBfloat16(bits)) ==
          (brain_nan ? (bits | 0x40) : bits));
  }
  CHECK(Float16FromFloat32(0x7F800000u) == 0x7C00);
  CHECK(Bfloat16FromFloat32(0xFF800000u) == 0xFF80);
  CHECK(Float16FromFloat32(0x7FA00000u) == 0x7F00);  // quiet, payload kept
}

}  // namespace
}  // namespace shardc::oracle
