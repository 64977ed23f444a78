// Converts arrays of floats by vectors: loads full vectors, converts them to
// float32, and stores them as the target type. The elements after the last full
// vector are copied to a padded array and converted as one more vector. For
// example, 10 float16 numbers on AVX2 are one vector of 8 and a padded copy of
// 2.
#include "floats/convert.h"

#include <cstdint>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "floats/convert_simd.cc"
// foreach_target.h must precede highway.h. It includes this file once more for
// each instruction set.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "floats/half_simd-inl.h"
#include "floats/targets_simd.h"

HWY_BEFORE_NAMESPACE();
namespace shardc::HWY_NAMESPACE {

struct Single {
  using T = float;
  static HWY_INLINE VF Load(const T* p) { return hn::LoadU(DF(), p); }
  static HWY_INLINE void Store(VF x, T* p) { hn::StoreU(x, DF(), p); }
};
struct Half {
  using T = uint16_t;
  static HWY_INLINE VF Load(const T* p) { return LoadQuietFloat16(p); }
  static HWY_INLINE void Store(VF x, T* p) { StoreFloat16(x, p); }
};
struct Brain {
  using T = uint16_t;
  static HWY_INLINE VF Load(const T* p) { return LoadBFloat16(p); }
  static HWY_INLINE void Store(VF x, T* p) { StoreBFloat16(x, p); }
};

template <class From, class To>
HWY_INLINE void Convert(const void* in, void* out, size_t count) {
  const auto* x = static_cast<const typename From::T*>(in);
  auto* y = static_cast<typename To::T*>(out);
  const size_t n = hn::Lanes(DF());
  size_t i = 0;
  for (; i + n <= count; i += n) To::Store(From::Load(x + i), y + i);
  if (i == count) return;
  alignas(64) typename From::T from[64] = {};
  alignas(64) typename To::T to[64];
  std::memcpy(from, static_cast<const char*>(in) + i * sizeof(*from),
              (count - i) * sizeof(*from));
  To::Store(From::Load(from), to);
  std::memcpy(static_cast<char*>(out) + i * sizeof(*to), to,
              (count - i) * sizeof(*to));
}

void F16FromF32(const void* in, void* out, size_t count) {
  Convert<Single, Half>(in, out, count);
}
void Bf16FromF32(const void* in, void* out, size_t count) {
  Convert<Single, Brain>(in, out, count);
}
void F32FromF16(const void* in, void* out, size_t count) {
  Convert<Half, Single>(in, out, count);
}
void F32FromBf16(const void* in, void* out, size_t count) {
  Convert<Brain, Single>(in, out, count);
}
void F16FromBf16(const void* in, void* out, size_t count) {
  Convert<Brain, Half>(in, out, count);
}
void Bf16FromF16(const void* in, void* out, size_t count) {
  Convert<Half, Brain>(in, out, count);
}

}  // namespace shardc::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shardc {

SIMD_EXPORT(F16FromF32);
SIMD_EXPORT(Bf16FromF32);
SIMD_EXPORT(F32FromF16);
SIMD_EXPORT(F32FromBf16);
SIMD_EXPORT(F16FromBf16);
SIMD_EXPORT(Bf16FromF16);

void SimdF16FromF32(const void* in, void* out, size_t count) {
  SIMD_DISPATCH(F16FromF32)(in, out, count);
}
void SimdBf16FromF32(const void* in, void* out, size_t count) {
  SIMD_DISPATCH(Bf16FromF32)(in, out, count);
}
void SimdF32FromF16(const void* in, void* out, size_t count) {
  SIMD_DISPATCH(F32FromF16)(in, out, count);
}
void SimdF32FromBf16(const void* in, void* out, size_t count) {
  SIMD_DISPATCH(F32FromBf16)(in, out, count);
}
void SimdF16FromBf16(const void* in, void* out, size_t count) {
  SIMD_DISPATCH(F16FromBf16)(in, out, count);
}
void SimdBf16FromF16(const void* in, void* out, size_t count) {
  SIMD_DISPATCH(Bf16FromF16)(in, out, count);
}

}  // namespace shardc
#endif  // HWY_ONCE
