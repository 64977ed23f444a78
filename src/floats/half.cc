// Converts numbers to and from float16 and bfloat16. Conversions from float use
// integer arithmetic on the bits. A conversion from double rounds directly to
// the 16-bit format (RoundToFormat), because rounding to float first would
// round twice. Ties go to even: 65520 is halfway between 65504, float16's
// largest number, and 65536, so it becomes infinity. tests/floats/half_test.cc
// checks the conversions from float and from double around every midpoint
// between neighbours.
#include "floats/half.h"

#include <bit>
#include <cmath>

namespace shardc {
namespace {

// A 16-bit format: its precision in bits including the hidden bit, the exponent
// of its least normal number, the least normal number itself, and the smallest
// magnitude that becomes infinity.
struct Format {
  int precision;
  int min_exponent;
  double least_normal;
  double overflow;
};
constexpr Format kFloat16{11, -14, 0x1p-14, 65520.0};
// In bfloat16, `overflow` is (2 - 2^-8) * 2^127, which is halfway between the
// largest number and the next power of two.
constexpr Format kBFloat16{8, -126, 0x1p-126, 0x1.FFp127};

// Returns the value of the format that is nearest to x, as a double.
double RoundToFormat(double x, const Format& format) {
  if (!std::isfinite(x) || x == 0) return x;
  if (std::fabs(x) >= format.overflow) return std::copysign(INFINITY, x);
  if (std::fabs(x) < format.least_normal) {
    const int quantum = format.min_exponent - (format.precision - 1);
    return std::ldexp(std::nearbyint(std::ldexp(x, -quantum)), quantum);
  }
  // Rounds to nearest, ties to even. The code adds half the value of the last
  // kept bit, less one, and one more if that bit is 1. Then it drops the lower
  // bits. A carry increments the exponent.
  const int drop = 53 - format.precision;
  auto bits = std::bit_cast<uint64_t>(x);
  bits += (uint64_t{1} << (drop - 1)) - 1 + ((bits >> drop) & 1);
  return std::bit_cast<double>(bits >> drop << drop);
}

}  // namespace

uint16_t Float16Bits(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t sign = (bits >> 16) & 0x8000;
  uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) {  // A NaN becomes quiet.
    return static_cast<uint16_t>(sign | 0x7e00 | ((magnitude >> 13) & 0x3ff));
  }
  if (magnitude >= 0x477ff000) {  // 65520 and larger become infinity.
    return static_cast<uint16_t>(sign | 0x7c00);
  }
  if (magnitude < 0x38800000) {
    // The result is subnormal. Floats from 0.5 to 1 are 2^-24 apart, and so are
    // float16's subnormal numbers. Adding 0.5 therefore rounds to a multiple of
    // the result's step.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(
        sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000));
  }
  // The exponent bias changes from 127 to 15, and 13 bits are dropped. To round
  // ties to even, the code adds half the value of the last kept bit, less one
  // (0xfff), and one more if that bit is 1.
  magnitude -= (112u << 23) - 0xfff - ((magnitude >> 13) & 1);
  return static_cast<uint16_t>(sign | (magnitude >> 13));
}

uint16_t Float16Bits(double x) {
  return Float16Bits(static_cast<float>(RoundToFormat(x, kFloat16)));
}

float FromFloat16(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  const uint32_t exponent = (bits >> 10) & 0x1f;
  const uint32_t fraction = bits & 0x3ff;
  if (exponent == 0x1f) {
    const uint32_t quiet = fraction != 0 ? 0x400000 : 0;
    return std::bit_cast<float>(sign | 0x7f800000 | quiet | (fraction << 13));
  }
  if (exponent == 0) {
    const float value = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) |
                              (fraction << 13));
}

uint16_t BFloat16Bits(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7fffffff) > 0x7f800000) {
    return static_cast<uint16_t>((bits >> 16) | 0x40);
  }
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

uint16_t BFloat16Bits(double x) {
  return BFloat16Bits(static_cast<float>(RoundToFormat(x, kBFloat16)));
}

float FromBFloat16(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

float RoundTo(Dtype dtype, double x) {
  if (dtype == Dtype::kF16) return FromFloat16(Float16Bits(x));
  if (dtype == Dtype::kBF16) return FromBFloat16(BFloat16Bits(x));
  return static_cast<float>(x);
}

float RoundTo(Dtype dtype, float x) {
  if (dtype == Dtype::kF16) return FromFloat16(Float16Bits(x));
  if (dtype == Dtype::kBF16) return FromBFloat16(BFloat16Bits(x));
  return x;
}

double UnitRoundoff(Dtype dtype) {
  if (dtype == Dtype::kF16) return 0x1p-11;
  if (dtype == Dtype::kBF16) return 0x1p-8;
  return 0x1p-24;
}

}  // namespace shardc
