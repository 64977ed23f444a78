// A narrowing conversion rounds an integer significand once: the bits that do
// not fit are shifted out, and one is added if they were more than half a unit,
// or exactly half and the last kept bit is odd. A carry out of the significand
// increases the exponent, which is correct, up to infinity.
#include "floats/oracle.h"

namespace shardc::oracle {
namespace {

struct Format {
  int exponent_bits;
  int fraction_bits;
  int Bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int MaxExponent() const { return (1 << exponent_bits) - 1; }
  int SignShift() const { return exponent_bits + fraction_bits; }
};

constexpr Format kFloat64{11, 52};
constexpr Format kFloat32{8, 23};
constexpr Format kFloat16{5, 10};
constexpr Format kBfloat16{8, 7};

uint64_t ShiftRounded(uint64_t value, int shift) {
  if (shift <= 0) return value;
  if (shift > 63) return 0;  // below half of the last place
  const uint64_t kept = value >> shift;
  const uint64_t gone = value & ((uint64_t{1} << shift) - 1);
  const uint64_t half = uint64_t{1} << (shift - 1);
  return kept + (gone > half || (gone == half && (kept & 1) != 0) ? 1 : 0);
}

uint64_t Narrow(uint64_t bits, const Format& from, const Format& to) {
  const uint64_t sign = bits >> from.SignShift() & 1;
  const auto exponent = static_cast<int>(
      bits >> from.fraction_bits & static_cast<uint64_t>(from.MaxExponent()));
  const uint64_t fraction = bits & ((uint64_t{1} << from.fraction_bits) - 1);
  const int drop = from.fraction_bits - to.fraction_bits;
  const uint64_t signed_zero = sign << to.SignShift();
  const uint64_t infinity = static_cast<uint64_t>(to.MaxExponent())
                            << to.fraction_bits;
  if (exponent == from.MaxExponent()) {
    if (fraction == 0) return signed_zero | infinity;
    const uint64_t quiet = uint64_t{1} << (to.fraction_bits - 1);
    return signed_zero | infinity | quiet | fraction >> drop;
  }
  const bool normal = exponent != 0;
  const uint64_t significand =
      fraction | (normal ? uint64_t{1} << from.fraction_bits : 0);
  const int scale = (normal ? exponent : 1) - from.Bias() + to.Bias();
  uint64_t magnitude = 0;
  if (scale >= 1) {
    // The leading one of a normal significand adds 1 to the exponent bits.
    magnitude = ShiftRounded(significand, drop) +
                (static_cast<uint64_t>(scale - 1) << to.fraction_bits);
  } else {
    magnitude = ShiftRounded(significand, drop + 1 - scale);
  }
  return signed_zero | (magnitude > infinity ? infinity : magnitude);
}

}  // namespace

uint32_t Float32FromFloat64(uint64_t bits) {
  return static_cast<uint32_t>(Narrow(bits, kFloat64, kFloat32));
}

uint16_t Float16FromFloat64(uint64_t bits) {
  return static_cast<uint16_t>(Narrow(bits, kFloat64, kFloat16));
}

uint16_t Bfloat16FromFloat64(uint64_t bits) {
  return static_cast<uint16_t>(Narrow(bits, kFloat64, kBfloat16));
}

uint16_t Float16FromFloat32(uint32_t bits) {
  return static_cast<uint16_t>(Narrow(bits, kFloat32, kFloat16));
}

uint16_t Bfloat16FromFloat32(uint32_t bits) {
  return static_cast<uint16_t>(Narrow(bits, kFloat32, kBfloat16));
}

uint32_t Float32FromFloat16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits >> 15) << 31;
  const uint32_t exponent = bits >> 10 & 0x1F;
  uint32_t fraction = bits & 0x3FF;
  if (exponent == 0x1F) {
    const uint32_t quiet = fraction != 0 ? 0x400000u : 0u;
    return sign | 0x7F800000u | quiet | fraction << 13;
  }
  if (exponent != 0) return sign | (exponent + 112) << 23 | fraction << 13;
  if (fraction == 0) return sign;
  uint32_t shifted = 0;
  while ((fraction & 0x400) == 0) {
    fraction <<= 1;
    ++shifted;
  }
  return sign | (113 - shifted) << 23 | (fraction & 0x3FF) << 13;
}

uint32_t Float32FromBfloat16(uint16_t bits) {
  return static_cast<uint32_t>(bits) << 16;
}

}  // namespace shardc::oracle
