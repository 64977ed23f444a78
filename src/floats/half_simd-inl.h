// Converts float16 and bfloat16 to float32 and back, one vector at a time. The
// library Highway compiles a SIMD file once for each target (instruction set).
// Such a file includes this header after hwy/highway.h. The include guard
// toggles, so that the header is compiled for each target, too.
//
// A target converts by integer arithmetic, by exact float operations or by
// conversion instructions. All three have the same results as convert.h, except
// that LoadFloat16 may leave a NaN signalling.
#if defined(SHARDC_FLOATS_HALF_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SHARDC_FLOATS_HALF_SIMD_INL_H_
#undef SHARDC_FLOATS_HALF_SIMD_INL_H_
#else
#define SHARDC_FLOATS_HALF_SIMD_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace shardc::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;
using DI = hn::RebindToSigned<DF>;
using DU = hn::RebindToUnsigned<DF>;
using DH = hn::Rebind<uint16_t, DF>;
using VF = hn::Vec<DF>;
using VU = hn::Vec<DU>;

// Loads Lanes(DF()) 16-bit values, each into the low half of a 32-bit lane.
HWY_INLINE VU LoadHalves(const uint16_t* p) {
  return hn::PromoteTo(DU(), hn::LoadU(DH(), p));
}
HWY_INLINE void StoreHalves(VU wide, uint16_t* p) {
  // At most 16 bits of a lane are set, so the conversion does not saturate.
  hn::StoreU(hn::DemoteTo(DH(), hn::BitCast(DI(), wide)), DH(), p);
}

HWY_INLINE VF LoadBFloat16(const uint16_t* p) {
  return hn::BitCast(DF(), hn::ShiftLeft<16>(LoadHalves(p)));
}

// SHARDC_FLOAT16_INSTRUCTIONS is 1 for x86 targets that have instructions to
// convert float16. These instructions round like convert.h and produce the same
// NaNs.
#undef SHARDC_FLOAT16_INSTRUCTIONS
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
#define SHARDC_FLOAT16_INSTRUCTIONS 1
#else
#define SHARDC_FLOAT16_INSTRUCTIONS 0
#endif

// Loads Lanes(DF()) float16 values as float32. A signalling NaN may stay
// signalling, which does not change the results of arithmetic.
HWY_INLINE VF LoadFloat16(const uint16_t* p) {
#if SHARDC_FLOAT16_INSTRUCTIONS
  const hn::Rebind<hwy::float16_t, DF> d16;
  return hn::PromoteTo(DF(), hn::BitCast(d16, hn::LoadU(DH(), p)));
#else
  const DF df;
  const DU du;
  // Multiplying by 2^112 changes the exponent's bias, and is exact also for
  // subnormal numbers.
  const VU wide = LoadHalves(p);
  const VU sign = hn::ShiftLeft<16>(hn::And(wide, hn::Set(du, 0x8000)));
  const VU rest = hn::ShiftLeft<13>(hn::And(wide, hn::Set(du, 0x7fff)));
  const VF scaled =
      hn::Mul(hn::BitCast(df, rest), hn::BitCast(df, hn::Set(du, 0x77800000)));
  const VF huge = hn::BitCast(df, hn::Or(rest, hn::Set(du, 0x7f800000)));
  const VF limit = hn::BitCast(df, hn::Set(du, 0x0f800000));
  const VF magnitude =
      hn::IfThenElse(hn::Ge(hn::BitCast(df, rest), limit), huge, scaled);
  return hn::Or(magnitude, hn::BitCast(df, sign));
#endif
}

// Loads float16 values like LoadFloat16(), and makes signalling NaNs quiet.
HWY_INLINE VF LoadQuietFloat16(const uint16_t* p) {
  const VF x = LoadFloat16(p);
#if SHARDC_FLOAT16_INSTRUCTIONS
  return x;
#else
  const VF quiet = hn::BitCast(DF(), hn::Set(DU(), 0x00400000));
  return hn::IfThenElse(hn::IsNaN(x), hn::Or(x, quiet), x);
#endif
}

HWY_INLINE VU BFloat16BitsOf(VF x) {
  const DU du;
  const VU u = hn::BitCast(du, x);
  const VU odd = hn::And(hn::ShiftRight<16>(u), hn::Set(du, 1));
  const VU rounded =
      hn::ShiftRight<16>(hn::Add(hn::Add(u, hn::Set(du, 0x7fff)), odd));
  const VU quiet = hn::Or(hn::ShiftRight<16>(u), hn::Set(du, 0x40));
  return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(x)), quiet, rounded);
}

HWY_INLINE void StoreBFloat16(VF x, uint16_t* p) {
  StoreHalves(BFloat16BitsOf(x), p);
}

HWY_INLINE void StoreFloat16(VF x, uint16_t* p) {
#if SHARDC_FLOAT16_INSTRUCTIONS
  const hn::Rebind<hwy::float16_t, DF> d16;
  hn::StoreU(hn::BitCast(DH(), hn::DemoteTo(d16, x)), DH(), p);
#else
  // A normal result is rounded by integer arithmetic, which drops 13 bits. For
  // a subnormal result, 0.5 is added. Floats from 0.5 to 1 are 2^-24 apart, and
  // so are float16's subnormal numbers. The addition then rounds to this step.
  const DF df;
  const DI di;
  const DU du;
  const VU u = hn::BitCast(du, x);
  const VU sign = hn::ShiftRight<16>(hn::And(u, hn::Set(du, 0x80000000u)));
  const VU a = hn::And(u, hn::Set(du, 0x7fffffffu));
  const VU odd = hn::And(hn::ShiftRight<13>(a), hn::Set(du, 1));
  const VU normal = hn::ShiftRight<13>(hn::Add(
      hn::Add(hn::Sub(a, hn::Set(du, 112u << 23)), hn::Set(du, 0xfff)), odd));
  const VF half = hn::Set(df, 0.5f);
  const VU small = hn::Sub(hn::BitCast(du, hn::Add(hn::BitCast(df, a), half)),
                           hn::BitCast(du, half));
  const auto at = hn::BitCast(di, a);
  const auto is = [&](auto mask) HWY_ATTR { return hn::RebindMask(du, mask); };
  // Numbers from 65520 on become infinity, and numbers below 2^-14 are
  // subnormal.
  VU y = hn::IfThenElse(is(hn::Lt(at, hn::Set(di, 0x38800000))), small, normal);
  y = hn::IfThenElse(is(hn::Gt(at, hn::Set(di, 0x477fefff))),
                     hn::Set(du, 0x7c00), y);
  const VU quiet = hn::Or(hn::And(hn::ShiftRight<13>(a), hn::Set(du, 0x3ff)),
                          hn::Set(du, 0x7e00));
  y = hn::IfThenElse(is(hn::Gt(at, hn::Set(di, 0x7f800000))), quiet, y);
  StoreHalves(hn::Or(y, sign), p);
#endif
}

}  // namespace shardc::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SHARDC_FLOATS_HALF_SIMD_INL_H_
