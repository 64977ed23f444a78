// Loads and math functions of the kernels. Files with HWY_NAMESPACE include
// this header after hwy/highway.h. Highway compiles them once for each
// instruction set (target), so the include guard toggles.
#if defined(SHARDC_EXEC_KERNELS_KERNEL_MATH_SIMD_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef SHARDC_EXEC_KERNELS_KERNEL_MATH_SIMD_INL_H_
#undef SHARDC_EXEC_KERNELS_KERNEL_MATH_SIMD_INL_H_
#else
#define SHARDC_EXEC_KERNELS_KERNEL_MATH_SIMD_INL_H_
#endif

#include "floats/half_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shardc::exec::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using shardc::HWY_NAMESPACE::DF;
using shardc::HWY_NAMESPACE::DI;
using shardc::HWY_NAMESPACE::DU;
using shardc::HWY_NAMESPACE::VF;

// log2(e): e^x is computed as 2^(x log2(e)).
constexpr float kLog2E = 1.44269504f;

// Returns 2^n, or 0 for n = -127. `biased` is the float n + 1.5*2^23 + 127,
// whose low bits are n + 127.
HWY_INLINE VF PowerOfTwo(VF biased) {
  const DF df;
  const DI di;
  return hn::BitCast(df, hn::ShiftLeft<23>(hn::BitCast(di, biased)));
}

// Returns e^r for |r| <= ln(2)/2. It is a minimax polynomial whose relative
// error is below 2^-26.
HWY_INLINE VF ExpReduced(VF r) {
  const DF df;
  VF p = hn::Set(df, 1.9875691500e-4f);
  p = hn::MulAdd(p, r, hn::Set(df, 1.3981999507e-3f));
  p = hn::MulAdd(p, r, hn::Set(df, 8.3334519073e-3f));
  p = hn::MulAdd(p, r, hn::Set(df, 4.1665795894e-2f));
  p = hn::MulAdd(p, r, hn::Set(df, 1.6666665459e-1f));
  p = hn::MulAdd(p, r, hn::Set(df, 5.0000001201e-1f));
  const VF r2 = hn::Mul(r, r);
  return hn::Add(hn::Set(df, 1.0f), hn::MulAdd(p, r2, r));
}

// Returns x - n*ln(2). ln(2) is subtracted in two parts (Cody & Waite), since
// n*0.693359375 is exact.
HWY_INLINE VF ReduceByLn2(VF x, VF n) {
  const DF df;
  const VF r = hn::NegMulAdd(n, hn::Set(df, 0.693359375f), x);
  return hn::NegMulAdd(n, hn::Set(df, -2.12194440e-4f), r);
}

// Returns e^x for x <= 0. Results below 2^-126.5 are 0, and e^0 is 1.
HWY_INLINE VF ExpNonPositiveV(VF x) {
  const DF df;
  const VF magic = hn::Set(df, 12582912.0f + 127.0f);
  x = hn::Max(x, hn::Set(df, -88.0296919f));  // -127 ln 2
  const VF biased = hn::MulAdd(x, hn::Set(df, kLog2E), magic);
  const VF n = hn::Sub(biased, magic);
  return hn::Mul(ExpReduced(ReduceByLn2(x, n)), PowerOfTwo(biased));
}

// Returns e^x for all x, as 2^n * e^(x - n ln 2), where n is x log2(e) rounded
// to an integer. 2^n is multiplied in as two factors, so that only the second
// multiplication rounds, even if the result is subnormal.
HWY_INLINE VF ExpV(VF x) {
  const DF df;
  const DI di;
  const auto nan = hn::IsNaN(x);
  VF c = hn::Min(x, hn::Set(df, 89.0f));
  c = hn::Max(c, hn::Set(df, -104.5f));
  const VF round = hn::Set(df, 12582912.0f);
  const VF n = hn::Sub(hn::MulAdd(c, hn::Set(df, kLog2E), round), round);
  const auto whole = hn::ConvertTo(di, n);
  const auto half = hn::ShiftRight<1>(whole);
  const auto bias = hn::Set(di, 127);
  const VF first = hn::BitCast(df, hn::ShiftLeft<23>(hn::Add(half, bias)));
  const VF second =
      hn::BitCast(df, hn::ShiftLeft<23>(hn::Add(hn::Sub(whole, half), bias)));
  const VF y = ExpReduced(ReduceByLn2(c, n));
  return hn::IfThenElse(nan, x, hn::Mul(hn::Mul(y, first), second));
}

// Returns tanh(x) with an error of a few ulp. Near 0 it is an odd polynomial,
// elsewhere 1 - 2/(e^(2|x|) + 1) with the sign of x.
HWY_INLINE VF TanhV(VF x) {
  const DF df;
  const VF a = hn::Abs(x);
  const VF z = hn::Mul(x, x);
  VF p = hn::Set(df, -5.70498872745e-3f);
  p = hn::MulAdd(p, z, hn::Set(df, 2.06390887954e-2f));
  p = hn::MulAdd(p, z, hn::Set(df, -5.37397155531e-2f));
  p = hn::MulAdd(p, z, hn::Set(df, 1.33314422036e-1f));
  p = hn::MulAdd(p, z, hn::Set(df, -3.33332819422e-1f));
  const VF near = hn::MulAdd(hn::Mul(p, z), x, x);
  const VF one = hn::Set(df, 1.0f);
  const VF two = hn::Set(df, 2.0f);
  const VF far =
      hn::Sub(one, hn::Div(two, hn::Add(ExpV(hn::Mul(a, two)), one)));
  return hn::IfThenElse(hn::Lt(a, hn::Set(df, 0.625f)), near,
                        hn::CopySign(far, x));
}

// Each struct below describes an element type in memory. Load reads Lanes(DF())
// elements. Load2 reads twice as many into two vectors: the first and second
// half, or the elements at even and at odd indices where that is cheaper
// (kApart is true).
struct F32Element {
  using T = float;
  static HWY_INLINE VF Load(const T* p) { return hn::LoadU(DF(), p); }
  static constexpr bool kApart = false;
  static HWY_INLINE void Load2(const T* p, VF& a, VF& b) {
    a = Load(p);
    b = Load(p + hn::Lanes(DF()));
  }
};

struct Bf16Element {
  using T = uint16_t;
  static HWY_INLINE VF Load(const T* p) {
    return shardc::HWY_NAMESPACE::LoadBFloat16(p);
  }
#if HWY_TARGET == HWY_SCALAR
  static constexpr bool kApart = false;
  static HWY_INLINE void Load2(const T* p, VF& a, VF& b) {
    a = Load(p);
    b = Load(p + 1);
  }
#else
  // A bfloat16 number is the upper half of a float32. A 32-bit lane holds two
  // elements. The lower element is shifted up; the upper element is already in
  // place.
  static constexpr bool kApart = true;
  static HWY_INLINE void Load2(const T* p, VF& a, VF& b) {
    const hn::Repartition<uint16_t, DU> du16;
    const auto both = hn::BitCast(DU(), hn::LoadU(du16, p));
    a = hn::BitCast(DF(), hn::ShiftLeft<16>(both));
    b = hn::BitCast(DF(), hn::And(both, hn::Set(DU(), 0xffff0000u)));
  }
#endif
};

struct F16Element {
  using T = uint16_t;
  static HWY_INLINE VF Load(const T* p) {
    return shardc::HWY_NAMESPACE::LoadFloat16(p);
  }
  static constexpr bool kApart = false;
  static HWY_INLINE void Load2(const T* p, VF& a, VF& b) {
    a = Load(p);
    b = Load(p + hn::Lanes(DF()));
  }
};

struct I8Element {
  using T = int8_t;
  static HWY_INLINE VF Load(const T* p) {
    const hn::Rebind<int8_t, DF> quarter;
    const DI di;
    return hn::ConvertTo(DF(), hn::PromoteTo(di, hn::LoadU(quarter, p)));
  }
  static constexpr bool kApart = false;
  static HWY_INLINE void Load2(const T* p, VF& a, VF& b) {
    a = Load(p);
    b = Load(p + hn::Lanes(DF()));
  }
};

// Loads the first `count` elements and fills the rest of the vector with zeros.
template <class E>
HWY_INLINE VF LoadFirst(const typename E::T* p, size_t count) {
  alignas(64) typename E::T all[64] = {};
  for (size_t i = 0; i < count; ++i) all[i] = p[i];
  return E::Load(all);
}

HWY_INLINE void StoreFirst(VF v, float* p, size_t count) {
  alignas(64) float all[64];
  hn::Store(v, DF(), all);
  for (size_t i = 0; i < count; ++i) p[i] = all[i];
}

}  // namespace shardc::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SHARDC_EXEC_KERNELS_KERNEL_MATH_SIMD_INL_H_
