// Integer arithmetic on 32-bit lanes, so that every instruction set gives the
// same bits. One step is done in floats: adding 0.5 to a magnitude below
// 2^-14 leaves exactly the rounded subnormal half in the last bits, because
// the last place of numbers from 0.5 is 2^-24.
#include "checkpoint/cast_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "checkpoint/cast_simd.cc"
#include <hwy/foreach_target.h>  // before highway.h: it compiles this again
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace shardc {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D32 = hn::ScalableTag<uint32_t>;
using D16 = hn::Rebind<uint16_t, D32>;
using V32 = hn::Vec<D32>;
using V16 = hn::Vec<D16>;

HWY_INLINE V32 HalfFromFloat(V32 bits) {
  const D32 d;
  const hn::RebindToFloat<D32> df;
  const V32 abs = hn::And(bits, hn::Set(d, 0x7FFFFFFFu));
  const V32 sign = hn::ShiftRight<16>(hn::Xor(bits, abs));
  const V32 odd = hn::And(hn::ShiftRight<13>(abs), hn::Set(d, 1u));
  const V32 rounded = hn::Add(hn::Add(abs, hn::Set(d, 0xFFFu)), odd);
  const V32 normal = hn::Min(
      hn::ShiftRight<13>(hn::Sub(rounded, hn::Set(d, uint32_t{112} << 23))),
      hn::Set(d, 0x7C00u));
  const V32 small =
      hn::Sub(hn::BitCast(d, hn::Add(hn::BitCast(df, abs), hn::Set(df, 0.5f))),
              hn::Set(d, 0x3F000000u));
  const V32 nan = hn::Or(hn::Set(d, 0x7E00u),
                         hn::And(hn::ShiftRight<13>(abs), hn::Set(d, 0x3FFu)));
  V32 out = hn::IfThenElse(hn::Lt(abs, hn::Set(d, 0x38800000u)), small, normal);
  out = hn::IfThenElse(hn::Gt(abs, hn::Set(d, 0x7F800000u)), nan, out);
  return hn::Or(out, sign);
}

HWY_INLINE V32 BrainFromFloat(V32 bits) {
  const D32 d;
  const V32 abs = hn::And(bits, hn::Set(d, 0x7FFFFFFFu));
  const V32 odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1u));
  const V32 rounded =
      hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(d, 0x7FFFu)), odd));
  const V32 nan = hn::Or(hn::ShiftRight<16>(bits), hn::Set(d, 0x40u));
  return hn::IfThenElse(hn::Gt(abs, hn::Set(d, 0x7F800000u)), nan, rounded);
}

HWY_INLINE V32 FloatFromHalf(V32 bits) {
  const D32 d;
  const hn::RebindToFloat<D32> df;
  const hn::RebindToSigned<D32> di;
  const V32 abs = hn::And(bits, hn::Set(d, 0x7FFFu));
  const V32 sign = hn::ShiftLeft<16>(hn::Xor(bits, abs));
  const V32 wide = hn::ShiftLeft<13>(abs);
  const V32 normal = hn::Add(wide, hn::Set(d, uint32_t{112} << 23));
  // Subnormals are the integer times 2^-24, which is exact.
  const V32 small =
      hn::BitCast(d, hn::Mul(hn::ConvertTo(df, hn::BitCast(di, abs)),
                             hn::Set(df, 1.0f / 16777216.0f)));
  const V32 infinite = hn::Or(wide, hn::Set(d, 0x7F800000u));
  V32 out = hn::IfThenElse(hn::Lt(abs, hn::Set(d, 0x400u)), small, normal);
  out = hn::IfThenElse(hn::Gt(abs, hn::Set(d, 0x7BFFu)), infinite, out);
  const V32 quiet = hn::Or(out, hn::Set(d, 0x400000u));
  out = hn::IfThenElse(hn::Gt(abs, hn::Set(d, 0x7C00u)), quiet, out);
  return hn::Or(out, sign);
}

HWY_INLINE V32 FloatFromBrain(V32 bits) { return hn::ShiftLeft<16>(bits); }

HWY_INLINE V32 Load32(const char* in, size_t at) {
  return hn::LoadU(D32(), reinterpret_cast<const uint32_t*>(in) + at);
}
HWY_INLINE V32 Load16(const char* in, size_t at) {
  return hn::PromoteTo(
      D32(), hn::LoadU(D16(), reinterpret_cast<const uint16_t*>(in) + at));
}
HWY_INLINE void Store32(V32 bits, char* out, size_t at) {
  hn::StoreU(bits, D32(), reinterpret_cast<uint32_t*>(out) + at);
}
HWY_INLINE void Store16(V32 bits, char* out, size_t at) {
  const hn::RebindToSigned<D32> di;  // at most 16 bits: nothing saturates
  hn::StoreU(hn::DemoteTo(D16(), hn::BitCast(di, bits)), D16(),
             reinterpret_cast<uint16_t*>(out) + at);
}

size_t HalfFromFloats(const char* in, char* out, size_t count) {
  const size_t lanes = hn::Lanes(D32());
  size_t at = 0;
  for (; at + lanes <= count; at += lanes) {
    Store16(HalfFromFloat(Load32(in, at)), out, at);
  }
  return at;
}

size_t BrainFromFloats(const char* in, char* out, size_t count) {
  const size_t lanes = hn::Lanes(D32());
  size_t at = 0;
  for (; at + lanes <= count; at += lanes) {
    Store16(BrainFromFloat(Load32(in, at)), out, at);
  }
  return at;
}

size_t FloatFromHalves(const char* in, char* out, size_t count) {
  const size_t lanes = hn::Lanes(D32());
  size_t at = 0;
  for (; at + lanes <= count; at += lanes) {
    Store32(FloatFromHalf(Load16(in, at)), out, at);
  }
  return at;
}

size_t FloatFromBrains(const char* in, char* out, size_t count) {
  const size_t lanes = hn::Lanes(D32());
  size_t at = 0;
  for (; at + lanes <= count; at += lanes) {
    Store32(FloatFromBrain(Load16(in, at)), out, at);
  }
  return at;
}

size_t HalfFromBrains(const char* in, char* out, size_t count) {
  const size_t lanes = hn::Lanes(D32());
  size_t at = 0;
  for (; at + lanes <= count; at += lanes) {
    Store16(HalfFromFloat(FloatFromBrain(Load16(in, at))), out, at);
  }
  return at;
}

size_t BrainFromHalves(const char* in, char* out, size_t count) {
  const size_t lanes = hn::Lanes(D32());
  size_t at = 0;
  for (; at + lanes <= count; at += lanes) {
    Store16(BrainFromFloat(FloatFromHalf(Load16(in, at))), out, at);
  }
  return at;
}

}  // namespace HWY_NAMESPACE
}  // namespace shardc
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shardc {

HWY_EXPORT(HalfFromFloats);
HWY_EXPORT(BrainFromFloats);
HWY_EXPORT(FloatFromHalves);
HWY_EXPORT(FloatFromBrains);
HWY_EXPORT(HalfFromBrains);
HWY_EXPORT(BrainFromHalves);

size_t SimdFloat16FromFloat32(const char* in, char* out, size_t count) {
  return HWY_DYNAMIC_DISPATCH(HalfFromFloats)(in, out, count);
}
size_t SimdBfloat16FromFloat32(const char* in, char* out, size_t count) {
  return HWY_DYNAMIC_DISPATCH(BrainFromFloats)(in, out, count);
}
size_t SimdFloat32FromFloat16(const char* in, char* out, size_t count) {
  return HWY_DYNAMIC_DISPATCH(FloatFromHalves)(in, out, count);
}
size_t SimdFloat32FromBfloat16(const char* in, char* out, size_t count) {
  return HWY_DYNAMIC_DISPATCH(FloatFromBrains)(in, out, count);
}
size_t SimdFloat16FromBfloat16(const char* in, char* out, size_t count) {
  return HWY_DYNAMIC_DISPATCH(HalfFromBrains)(in, out, count);
}
size_t SimdBfloat16FromFloat16(const char* in, char* out, size_t count) {
  return HWY_DYNAMIC_DISPATCH(BrainFromHalves)(in, out, count);
}

}  // namespace shardc
#endif  // HWY_ONCE
