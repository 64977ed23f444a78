// Converts arrays of floats. This file selects the function for the pair of
// types; convert_simd.cc selects the instruction set. float64 inputs are
// rounded one at a time, because common processors cannot round a double to 16
// bits in one step.
#include "floats/convert.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>

namespace shardc {
namespace {

template <class To, class Round>
void FromDoubles(const void* in, void* out, size_t count, Round round) {
  const auto* from = static_cast<const char*>(in);
  auto* to = static_cast<char*>(out);
  for (size_t i = 0; i < count; ++i) {
    double x = 0;
    std::memcpy(&x, from + i * sizeof(x), sizeof(x));
    const To y = round(x);
    std::memcpy(to + i * sizeof(y), &y, sizeof(y));
  }
}

void FromF64(Dtype to, const void* in, void* out, size_t count) {
  if (to == Dtype::kF32) {
    FromDoubles<float>(in, out, count,
                       [](double x) { return static_cast<float>(x); });
  } else if (to == Dtype::kF16) {
    FromDoubles<uint16_t>(in, out, count,
                          [](double x) { return Float16Bits(x); });
  } else {
    FromDoubles<uint16_t>(in, out, count,
                          [](double x) { return BFloat16Bits(x); });
  }
}

}  // namespace

bool CanConvert(Dtype from, Dtype to) {
  const bool narrow =
      to == Dtype::kF32 || to == Dtype::kF16 || to == Dtype::kBF16;
  const bool wide = from == Dtype::kF64 || from == Dtype::kF32 ||
                    from == Dtype::kF16 || from == Dtype::kBF16;
  return narrow && wide;
}

void ConvertFloats(Dtype from, Dtype to, const void* in, void* out,
                   size_t count) {
  assert(CanConvert(from, to));
  if (from == to) {
    if (count > 0) {
      std::memcpy(out, in, count * static_cast<size_t>(DtypeBits(from)) / 8);
    }
  } else if (from == Dtype::kF64) {
    FromF64(to, in, out, count);
  } else if (from == Dtype::kF32) {
    (to == Dtype::kF16 ? SimdF16FromF32 : SimdBf16FromF32)(in, out, count);
  } else if (from == Dtype::kF16) {
    (to == Dtype::kF32 ? SimdF32FromF16 : SimdBf16FromF16)(in, out, count);
  } else {
    (to == Dtype::kF32 ? SimdF32FromBf16 : SimdF16FromBf16)(in, out, count);
  }
}

void F32ToBf16(std::span<const float> x, std::span<uint16_t> out) {
  SimdBf16FromF32(x.data(), out.data(), x.size());
}
void Bf16ToF32(std::span<const uint16_t> x, std::span<float> out) {
  SimdF32FromBf16(x.data(), out.data(), x.size());
}
void F32ToF16(std::span<const float> x, std::span<uint16_t> out) {
  SimdF16FromF32(x.data(), out.data(), x.size());
}
void F16ToF32(std::span<const uint16_t> x, std::span<float> out) {
  SimdF32FromF16(x.data(), out.data(), x.size());
}

void RoundAll(Dtype dtype, std::span<float> x) {
  if (dtype != Dtype::kF16 && dtype != Dtype::kBF16) return;
  std::array<uint16_t, 1024> bits;
  for (size_t at = 0; at < x.size(); at += bits.size()) {
    const auto part = x.subspan(at, std::min(bits.size(), x.size() - at));
    const std::span<uint16_t> narrow(bits.data(), part.size());
    if (dtype == Dtype::kF16) {
      F32ToF16(part, narrow);
      F16ToF32(narrow, part);
    } else {
      F32ToBf16(part, narrow);
      Bf16ToF32(narrow, part);
    }
  }
}

// Converts numbers to and from float16 and bfloat16. Conversions from float use
// integer arithmetic on the bits. A conversion from double rounds directly to
// the 16-bit format (RoundToFormat), because rounding to float first would
// round twice. Ties go to even: 65520 is halfway between 65504, float16's
// largest number, and 65536, so it becomes infinity. tests/floats/half_test.cc
// checks the conversions from float and from double around every midpoint
// between neighbours.

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
