// Converts arrays of floats. This file selects the function for the pair of
// types; convert_simd.cc selects the instruction set. float64 inputs are
// rounded one at a time, because common processors cannot round a double to 16
// bits in one step.
#include "floats/convert.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

#include "floats/convert_simd.h"
#include "floats/half.h"

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

}  // namespace shardc
