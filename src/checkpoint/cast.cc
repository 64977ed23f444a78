// Vectors take what they can of a run and say how much; scalar code, which
// the vectors are tested against, takes the rest. Nothing is rounded twice:
// F64 goes to 16 bits directly, F16 to BF16 by way of F32, which holds both.
//
//   F32 3F808000 to BF16: halfway between 3F80 and 3F81, so the even, 3F80
#include "checkpoint/cast.h"

#include <cstdint>
#include <cstring>

#include "checkpoint/cast_scalar.h"
#include "checkpoint/cast_simd.h"

namespace shardc {
namespace {

template <typename From, typename To, typename Convert>
void Loop(const char* in, char* out, size_t begin, size_t end,
          Convert convert) {
  for (size_t i = begin; i < end; ++i) {
    From value;
    std::memcpy(&value, in + i * sizeof(From), sizeof(From));
    const To result = convert(value);
    std::memcpy(out + i * sizeof(To), &result, sizeof(To));
  }
}

void FromFloat32(Dtype to, const char* in, char* out, size_t count) {
  if (to == Dtype::kF16) {
    const size_t done = SimdFloat16FromFloat32(in, out, count);
    Loop<uint32_t, uint16_t>(in, out, done, count, Float16FromFloat32);
  } else {
    const size_t done = SimdBfloat16FromFloat32(in, out, count);
    Loop<uint32_t, uint16_t>(in, out, done, count, Bfloat16FromFloat32);
  }
}

void FromFloat16(Dtype to, const char* in, char* out, size_t count) {
  if (to == Dtype::kF32) {
    const size_t done = SimdFloat32FromFloat16(in, out, count);
    Loop<uint16_t, uint32_t>(in, out, done, count, Float32FromFloat16);
  } else {
    const size_t done = SimdBfloat16FromFloat16(in, out, count);
    Loop<uint16_t, uint16_t>(in, out, done, count, [](uint16_t bits) {
      return Bfloat16FromFloat32(Float32FromFloat16(bits));
    });
  }
}

void FromBfloat16(Dtype to, const char* in, char* out, size_t count) {
  if (to == Dtype::kF32) {
    const size_t done = SimdFloat32FromBfloat16(in, out, count);
    Loop<uint16_t, uint32_t>(in, out, done, count, Float32FromBfloat16);
  } else {
    const size_t done = SimdFloat16FromBfloat16(in, out, count);
    Loop<uint16_t, uint16_t>(in, out, done, count, [](uint16_t bits) {
      return Float16FromFloat32(Float32FromBfloat16(bits));
    });
  }
}

void FromFloat64(Dtype to, const char* in, char* out, size_t count) {
  if (to == Dtype::kF32) {
    Loop<uint64_t, uint32_t>(in, out, 0, count, Float32FromFloat64);
  } else if (to == Dtype::kF16) {
    Loop<uint64_t, uint16_t>(in, out, 0, count, Float16FromFloat64);
  } else {
    Loop<uint64_t, uint16_t>(in, out, 0, count, Bfloat16FromFloat64);
  }
}

}  // namespace

bool CanCast(Dtype from, Dtype to) {
  const bool narrow =
      to == Dtype::kF32 || to == Dtype::kF16 || to == Dtype::kBF16;
  const bool wide = from == Dtype::kF64 || from == Dtype::kF32 ||
                    from == Dtype::kF16 || from == Dtype::kBF16;
  return narrow && wide;
}

void CastElements(Dtype from, Dtype to, const char* in, char* out,
                  size_t count) {
  if (from == to) {
    std::memcpy(out, in, count * static_cast<size_t>(DtypeBits(from)) / 8);
  } else if (from == Dtype::kF64) {
    FromFloat64(to, in, out, count);
  } else if (from == Dtype::kF32) {
    FromFloat32(to, in, out, count);
  } else if (from == Dtype::kF16) {
    FromFloat16(to, in, out, count);
  } else {
    FromBfloat16(to, in, out, count);
  }
}

}  // namespace shardc
