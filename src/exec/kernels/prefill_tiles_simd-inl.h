// Computes products of tiles for the prefill kernel. Highway compiles this file
// once for each instruction set (target). The sums of a tile are kRows rows of
// kVectors vectors. They stay in registers while one panel of packed numbers is
// read. TransposeFour packs such panels.
#if defined(SHARDC_EXEC_KERNELS_PREFILL_TILES_SIMD_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef SHARDC_EXEC_KERNELS_PREFILL_TILES_SIMD_INL_H_
#undef SHARDC_EXEC_KERNELS_PREFILL_TILES_SIMD_INL_H_
#else
#define SHARDC_EXEC_KERNELS_PREFILL_TILES_SIMD_INL_H_
#endif

#include "exec/kernels/attention_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shardc::exec::HWY_NAMESPACE {

// A tile has kRows x kVectors vectors of sums: 12 x 2 fit into 32 registers,
// and 4 x 2 into 16. A panel has at least four columns, so that four rows can
// be packed at a time.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
constexpr int64_t kRows = 12;
constexpr int64_t kVectors = 2;
#elif HWY_TARGET == HWY_SCALAR
constexpr int64_t kRows = 4;
constexpr int64_t kVectors = 4;
#else
constexpr int64_t kRows = 4;
constexpr int64_t kVectors = 2;
#endif

HWY_INLINE int64_t PanelWidth() {  // NR
  return kVectors * static_cast<int64_t>(hn::Lanes(DF()));
}

#if HWY_HAVE_SCALABLE
// Stores the 128-bit blocks of v at `dst`, `step` floats apart.
HWY_INLINE void StoreBlocks(DF d, VF v, float* HWY_RESTRICT dst, int64_t step) {
  const hn::FixedTag<float, 4> block;
  alignas(64) float all[64];
  hn::Store(v, d, all);
  for (size_t i = 0; i < hn::Lanes(d); i += 4, dst += step) {
    hn::StoreU(hn::Load(block, all + i), block, dst);
  }
}
#elif HWY_TARGET != HWY_SCALAR
// Stores the 128-bit blocks of v at `dst`, `step` floats apart.
template <class D, class V>
HWY_INLINE void StoreBlocks(D d, V v, float* HWY_RESTRICT dst, int64_t step) {
  if constexpr (hn::MaxLanes(D()) > 4) {
    const hn::Half<D> half;
    constexpr auto kBlocks = static_cast<int64_t>(hn::MaxLanes(D()) / 8);
    StoreBlocks(half, hn::LowerHalf(half, v), dst, step);
    StoreBlocks(half, hn::UpperHalf(half, v), dst + kBlocks * step, step);
  } else {
    hn::StoreU(v, d, dst);
  }
}

#endif

// Writes the transpose of four rows of `count` floats: dst[c * stride + r] for
// r < 4.
HWY_INLINE void TransposeFour(const float* HWY_RESTRICT src, int64_t src_stride,
                              int64_t count, float* HWY_RESTRICT dst,
                              int64_t stride) {
  int64_t c = 0;
#if HWY_TARGET != HWY_SCALAR
  const DF df;
  const hn::Repartition<double, DF> dd;
  const auto n = static_cast<int64_t>(hn::Lanes(df));
  for (; c + n <= count; c += n) {
    const VF r0 = hn::LoadU(df, src + c);
    const VF r1 = hn::LoadU(df, src + c + src_stride);
    const VF r2 = hn::LoadU(df, src + c + 2 * src_stride);
    const VF r3 = hn::LoadU(df, src + c + 3 * src_stride);
    const auto a0 = hn::BitCast(dd, hn::InterleaveLower(df, r0, r1));
    const auto a1 = hn::BitCast(dd, hn::InterleaveLower(df, r2, r3));
    const auto b0 = hn::BitCast(dd, hn::InterleaveUpper(df, r0, r1));
    const auto b1 = hn::BitCast(dd, hn::InterleaveUpper(df, r2, r3));
    float* const to = dst + c * stride;
    // In each vector that is stored below, a 128-bit block holds the four
    // numbers of one column. The next block holds the column that is four
    // columns later.
    const int64_t step = 4 * stride;
    StoreBlocks(df, hn::BitCast(df, hn::InterleaveLower(dd, a0, a1)), to, step);
    StoreBlocks(df, hn::BitCast(df, hn::InterleaveUpper(dd, a0, a1)),
                to + stride, step);
    StoreBlocks(df, hn::BitCast(df, hn::InterleaveLower(dd, b0, b1)),
                to + 2 * stride, step);
    StoreBlocks(df, hn::BitCast(df, hn::InterleaveUpper(dd, b0, b1)),
                to + 3 * stride, step);
  }
#endif
  for (; c < count; ++c) {
    for (int64_t r = 0; r < 4; ++r) {
      dst[c * stride + r] = src[r * src_stride + c];
    }
  }
}

// Computes sum[r][v] = sum over k, in order, of a[k*AStep + r*AStride] * b[k*NR
// + v*N], where N is the number of lanes of a vector. Calls use(r, v,
// sum[r][v]) for each sum. Calls between(), which prefetches memory, once
// before every group of `part` values of k.
#if HWY_HAVE_SCALABLE
// Vectors whose size is known only at run time cannot be elements of an array,
// so each sum is a separate variable.
template <int64_t kAStep, int64_t kAStride, class G, class F>
HWY_INLINE void MultiplyTile(const float* HWY_RESTRICT a,
                             const float* HWY_RESTRICT b, int64_t count,
                             int64_t part, const G& between, const F& use) {
  static_assert(kRows == 4 && kVectors == 2);
  const DF df;
  const auto n = static_cast<int64_t>(hn::Lanes(df));
  VF s00 = hn::Zero(df), s01 = s00, s10 = s00, s11 = s00;
  VF s20 = s00, s21 = s00, s30 = s00, s31 = s00;
  for (int64_t k = 0; k < count; ++k, a += kAStep, b += kVectors * n) {
    if (k % part == 0) between();
    const VF b0 = hn::Load(df, b), b1 = hn::Load(df, b + n);
    const VF a0 = hn::Set(df, a[0]), a1 = hn::Set(df, a[kAStride]);
    s00 = hn::MulAdd(a0, b0, s00);
    s01 = hn::MulAdd(a0, b1, s01);
    s10 = hn::MulAdd(a1, b0, s10);
    s11 = hn::MulAdd(a1, b1, s11);
    const VF a2 = hn::Set(df, a[2 * kAStride]);
    const VF a3 = hn::Set(df, a[3 * kAStride]);
    s20 = hn::MulAdd(a2, b0, s20);
    s21 = hn::MulAdd(a2, b1, s21);
    s30 = hn::MulAdd(a3, b0, s30);
    s31 = hn::MulAdd(a3, b1, s31);
  }
  use(0, 0, s00), use(0, 1, s01), use(1, 0, s10), use(1, 1, s11);
  use(2, 0, s20), use(2, 1, s21), use(3, 0, s30), use(3, 1, s31);
}
#else
template <int64_t kAStep, int64_t kAStride, class G, class F>
HWY_INLINE void MultiplyTile(const float* HWY_RESTRICT a,
                             const float* HWY_RESTRICT b, int64_t count,
                             int64_t part, const G& between, const F& use) {
  const DF df;
  const auto n = static_cast<int64_t>(hn::Lanes(df));
  VF sums[kRows][kVectors];
#pragma GCC unroll 12
  for (int64_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int64_t v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(df);
  }
  for (int64_t from = 0; from < count; from += part) {
    const int64_t end = HWY_MIN(from + part, count);
    between();
#pragma GCC unroll 4
    for (int64_t k = from; k < end; ++k) {
      VF column[kVectors];
#pragma GCC unroll 4
      for (int64_t v = 0; v < kVectors; ++v)
        column[v] = hn::Load(df, b + v * n);
#pragma GCC unroll 12
      for (int64_t r = 0; r < kRows; ++r) {
        const VF x = hn::Set(df, a[r * kAStride]);
#pragma GCC unroll 4
        for (int64_t v = 0; v < kVectors; ++v) {
          sums[r][v] = hn::MulAdd(x, column[v], sums[r][v]);
        }
      }
      a += kAStep;
      b += kVectors * n;
    }
  }
#pragma GCC unroll 12
  for (int64_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int64_t v = 0; v < kVectors; ++v) use(r, v, sums[r][v]);
  }
}
#endif

}  // namespace shardc::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SHARDC_EXEC_KERNELS_PREFILL_TILES_SIMD_INL_H_
