// Computes the softmax of a tile of scores for the prefill kernel. Highway
// compiles this file once for each instruction set (target).
//
// A weight e^(x - max) is computed as 2^((x - max) log2(e)). The product is
// rounded, so the relative error of a weight is about |x - max| 2^-24. It is
// large only for small weights. The absolute error is below 2^-23 times the
// largest weight.
//
// The rows of a tile are processed together: first the maxima of all rows, then
// their weights. The steps of one row depend on each other, but the processor
// can overlap the steps of different rows.
#if defined(SHARDC_EXEC_KERNELS_PREFILL_SOFTMAX_SIMD_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef SHARDC_EXEC_KERNELS_PREFILL_SOFTMAX_SIMD_INL_H_
#undef SHARDC_EXEC_KERNELS_PREFILL_SOFTMAX_SIMD_INL_H_
#else
#define SHARDC_EXEC_KERNELS_PREFILL_SOFTMAX_SIMD_INL_H_
#endif

#include "exec/kernels/prefill_tiles_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shardc::exec::HWY_NAMESPACE {

// Returns 2^t for t <= 0, with a relative error below 2^-22. It is 2^n * 2^r,
// where n is t rounded to an integer and 2^r is a minimax polynomial. Results
// below 2^-126.5 are 0, and 2^0 is 1.
HWY_INLINE VF PowerNonPositiveV(VF t) {
  const DF df;
  const VF magic = hn::Set(df, 12582912.0f + 127.0f);
  t = hn::Max(t, hn::Set(df, -127.0f));
  const VF biased = hn::Add(t, magic);
  const VF r = hn::Sub(t, hn::Sub(biased, magic));
  VF p = hn::Set(df, 1.326472730e-3f);
  p = hn::MulAdd(p, r, hn::Set(df, 9.671512991e-3f));
  p = hn::MulAdd(p, r, hn::Set(df, 5.550733581e-2f));
  p = hn::MulAdd(p, r, hn::Set(df, 2.402224243e-1f));
  p = hn::MulAdd(p, r, hn::Set(df, 6.931470037e-1f));
  p = hn::MulAdd(p, r, hn::Set(df, 1.0f));
  return hn::Mul(p, PowerOfTwo(biased));
}

// Replaces scores [c0, c1) by the weights e^(s - shift), and returns their sum.
// The sum is accumulated in two vectors. The index of a weight decides to which
// vector it is added.
HWY_INLINE float WeighRow(int64_t c0, int64_t c1, float shift,
                          float* HWY_RESTRICT s) {
  const DF df;
  const auto n = static_cast<int64_t>(hn::Lanes(df));
  const VF log2e = hn::Set(df, kLog2E);
  const VF less = hn::Set(df, shift);
  VF sum0 = hn::Zero(df);
  VF sum1 = hn::Zero(df);
  for (int64_t c = c0; c < c1; c += 2 * n) {
    const VF x0 = hn::Sub(hn::Load(df, s + c), less);
    const VF x1 = hn::Sub(hn::Load(df, s + c + n), less);
    const VF p0 = PowerNonPositiveV(hn::Mul(x0, log2e));
    const VF p1 = PowerNonPositiveV(hn::Mul(x1, log2e));
    hn::Store(p0, df, s + c);
    hn::Store(p1, df, s + c + n);
    sum0 = hn::Add(sum0, p0);
    sum1 = hn::Add(sum1, p1);
  }
  return hn::GetLane(hn::SumOfLanes(df, hn::Add(sum0, sum1)));
}

// For each row of a tile: the largest score before a block of keys (`before`)
// and including the block (`now`), and two numbers that are computed from them.
struct TileSoftmax {
  // A tile has fewer rows, but the loops process full vectors. 64 is a multiple
  // of the vector size of every target.
  static constexpr int64_t kSize = 64;
  alignas(64) float before[kSize];
  alignas(64) float now[kSize];
  alignas(64) float shift[kSize];  // `now`, or 0 if `now` is -inf
  // Factor by which earlier sums are multiplied.
  alignas(64) float alpha[kSize];
};

// Sets `now` to the larger of `now` and `before`. Computes `shift` and `alpha`
// from the new value of `now`.
HWY_INLINE void ShiftRows(TileSoftmax& tile) {
  const DF df;
  const VF log2e = hn::Set(df, kLog2E);
  const VF none = hn::Set(df, -std::numeric_limits<float>::infinity());
  for (int64_t r = 0; r < kRows; r += int64_t(hn::Lanes(df))) {
    const VF before = hn::Load(df, tile.before + r);
    const VF now = hn::Max(hn::Load(df, tile.now + r), before);
    const VF shift = hn::IfThenZeroElse(hn::Eq(now, none), now);
    const VF less = hn::Mul(hn::Sub(before, shift), log2e);
    hn::Store(now, df, tile.now + r);
    hn::Store(shift, df, tile.shift + r);
    hn::Store(PowerNonPositiveV(less), df, tile.alpha + r);
  }
}

}  // namespace shardc::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SHARDC_EXEC_KERNELS_PREFILL_SOFTMAX_SIMD_INL_H_
