#include "floats/convert.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace shardc {
namespace {

// One of the two 16-bit formats, and its conversions.
struct Format {
  Dtype dtype;
  uint16_t infinity;
  uint16_t (*from_float)(float);
  uint16_t (*from_double)(double);
  float (*to_float)(uint16_t);
};
const Format kFormats[] = {
    {Dtype::kF16, 0x7c00, Float16Bits, Float16Bits, FromFloat16},
    {Dtype::kBF16, 0x7f80, BFloat16Bits, BFloat16Bits, FromBFloat16},
};

TEST_CASE("known values convert exactly") {
  CHECK(FromFloat16(0x3c00) == 1.0f);
  CHECK(FromFloat16(0x7bff) == 65504.0f);
  CHECK(FromFloat16(0x0001) == 0x1p-24f);
  CHECK(FromFloat16(0x8400) == -0x1p-14f);
  CHECK(FromBFloat16(0x3f80) == 1.0f);
  CHECK(FromBFloat16(0x0001) == 0x1p-133f);
  CHECK(Float16Bits(65519.996f) == 0x7bff);
  CHECK(Float16Bits(65520.0f) == 0x7c00);
  CHECK(Float16Bits(-1e30f) == 0xfc00);
  CHECK(Float16Bits(0x1p-25f) == 0);  // a tie, to even
  CHECK(Float16Bits(std::nextafter(0x1p-25f, 1.0f)) == 1);
  CHECK(Float16Bits(-0.0f) == 0x8000);
  CHECK(BFloat16Bits(-0.0) == 0x8000);
  CHECK(UnitRoundoff(Dtype::kBF16) == 0x1p-8);
}

TEST_CASE("every 16-bit value converts back, NaNs stay NaNs") {
  for (const Format& format : kFormats) {
    int wrong = 0;
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      const auto half = static_cast<uint16_t>(bits);
      const float value = format.to_float(half);
      if (std::isnan(value)) {
        wrong += !std::isnan(format.to_float(format.from_float(value)));
        wrong +=
            !std::isnan(format.to_float(format.from_double(double{value})));
      } else {
        wrong += format.from_float(value) != half;
        wrong += format.from_double(double{value}) != half;
      }
    }
    CHECK(wrong == 0);
  }
}

// Rounding is monotonic. It is therefore correct everywhere if it is correct
// at, below and above each midpoint between neighbours.
TEST_CASE("around every midpoint numbers round to nearest, ties to even") {
  for (const Format& format : kFormats) {
    int wrong = 0;
    for (uint32_t bits = 0; bits + 1 < format.infinity; ++bits) {
      const auto low = static_cast<uint16_t>(bits);
      const auto high = static_cast<uint16_t>(bits + 1);
      const uint16_t even = bits % 2 == 0 ? low : high;
      const double middle =
          (double{format.to_float(low)} + double{format.to_float(high)}) / 2;
      for (const double sign : {1.0, -1.0}) {
        const uint16_t mark = sign < 0 ? 0x8000 : 0;
        const double m = sign * middle;
        wrong += format.from_double(m) != (even | mark);
        wrong += format.from_double(std::nextafter(m, sign * 1e300)) !=
                 (high | mark);
        wrong += format.from_double(std::nextafter(m, 0.0)) != (low | mark);
        const auto single = static_cast<float>(m);
        if (double{single} == m) {
          wrong += format.from_float(single) != (even | mark);
          const float limit = std::numeric_limits<float>::max();
          const auto away = static_cast<float>(sign) * limit;
          wrong +=
              format.from_float(std::nextafter(single, away)) != (high | mark);
          wrong +=
              format.from_float(std::nextafter(single, 0.0f)) != (low | mark);
        }
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("float and double roundings agree on many floats") {
  for (const Format& format : kFormats) {
    int wrong = 0;
    for (uint64_t bits = 0; bits < 0x100000000u; bits += 4099) {
      const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
      if (std::isnan(x)) continue;
      wrong += format.from_float(x) != format.from_double(double{x});
      wrong += RoundTo(format.dtype, x) != RoundTo(format.dtype, double{x});
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("from double there is no double rounding") {
  // 1 + 2^-11 is a tie of float16; adding 2^-40 breaks the tie.
  CHECK(Float16Bits(1 + 0x1p-11) == 0x3c00);
  CHECK(Float16Bits(1 + 0x1p-11 + 0x1p-40) == 0x3c01);
  CHECK(BFloat16Bits(1 + 0x1p-8 + 0x1p-40) == 0x3f81);
  CHECK(RoundTo(Dtype::kF32, 1 + 0x1p-24 + 0x1p-50) == 1 + 0x1p-23f);
  CHECK(BFloat16Bits(3.5e38) == 0x7f80);
  CHECK(BFloat16Bits(0x1.FEFp127) == 0x7f7f);
}

}  // namespace
}  // namespace shardc
