// Code that the prefill and decode kernels share. Highway compiles it once for
// each instruction set (target). It selects code by the dtype of keys and
// values, and applies cap, bias, mask and softmax to a row of scores.
#if defined(SHARDC_EXEC_KERNELS_ATTENTION_SIMD_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef SHARDC_EXEC_KERNELS_ATTENTION_SIMD_INL_H_
#undef SHARDC_EXEC_KERNELS_ATTENTION_SIMD_INL_H_
#else
#define SHARDC_EXEC_KERNELS_ATTENTION_SIMD_INL_H_
#endif

#include "exec/kernels/kernel_math_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shardc::exec::HWY_NAMESPACE {

// These functions use no templates of the standard library: an instance
// compiled for one target could be linked into code for another.
HWY_INLINE int64_t RoundUp(int64_t x, int64_t to) {
  return (x + to - 1) / to * to;
}
HWY_INLINE void FillZero(float* to, int64_t count) {
  const DF df;
  const auto n = static_cast<int64_t>(hn::Lanes(df));
  int64_t i = 0;
  for (; i + n <= count; i += n) hn::StoreU(hn::Zero(df), df, to + i);
  for (; i < count; ++i) to[i] = 0;
}
HWY_INLINE void CopyFloats(const float* from, int64_t count, float* to) {
  const DF df;
  const auto n = static_cast<int64_t>(hn::Lanes(df));
  int64_t i = 0;
  for (; i + n <= count; i += n) {
    hn::StoreU(hn::LoadU(df, from + i), df, to + i);
  }
  for (; i < count; ++i) to[i] = from[i];
}

#if HWY_HAVE_SCALABLE
// Adds the 128-bit blocks of v lane by lane and stores the four sums. The
// number of blocks is known only at run time, so the vector is halved in
// memory.
HWY_INLINE void AddBlocks(DF d, VF v, float* sums) {
  const hn::FixedTag<float, 4> block;
  alignas(64) float all[64];
  hn::Store(v, d, all);
  for (size_t half = hn::Lanes(d) / 2; half >= 4; half /= 2) {
    for (size_t i = 0; i < half; i += 4) {
      hn::Store(
          hn::Add(hn::Load(block, all + i), hn::Load(block, all + half + i)),
          block, all + i);
    }
  }
  hn::StoreU(hn::Load(block, all), block, sums);
}
#elif HWY_TARGET != HWY_SCALAR
// Adds the 128-bit blocks of v lane by lane and stores the four sums.
template <class D, class V>
HWY_INLINE void AddBlocks(D d, V v, float* sums) {
  if constexpr (hn::MaxLanes(D()) > 4) {
    const hn::Half<D> half;
    AddBlocks(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)),
              sums);
  } else {
    hn::StoreU(v, d, sums);
  }
}
#endif

constexpr int64_t kLine = 64;  // bytes of a cache line

template <class T>
HWY_INLINE void PrefetchRow(const T* row, int64_t count) {
  const auto* const bytes = reinterpret_cast<const char*>(row);
  const int64_t size = count * static_cast<int64_t>(sizeof(T));
  for (int64_t i = 0; i < size; i += kLine) hwy::Prefetch(bytes + i);
}

// The range [begin, end) of keys that a query row attends to, apart from keys
// that `mask` removes.
struct Rows {
  int64_t begin, end;
};
HWY_INLINE Rows RowsOf(const AttentionSlice& in, int64_t t) {
  const int64_t begin = in.begin == nullptr ? 0 : in.begin[t];
  const int64_t end = in.end == nullptr ? in.key_rows : in.end[t];
  return {HWY_MAX(begin, int64_t{0}), HWY_MIN(end, in.key_rows)};
}

HWY_INLINE float RowScale(const float* scales, int64_t stride, int64_t row) {
  return scales == nullptr ? 1.0f : scales[row * stride] * (1 / 127.5f);
}

// Calls f with an object of the element type (F32Element, ...) for `dtype`.
template <class F>
HWY_INLINE void WithElement(Dtype dtype, const F& f) {
  switch (dtype) {
    case Dtype::kBF16:
      return f(Bf16Element());
    case Dtype::kF16:
      return f(F16Element());
    case Dtype::kI8:
      return f(I8Element());
    default:
      return f(F32Element());
  }
}

// Sets dst[i] = factor * src[i], computed in float32.
template <class E>
HWY_INLINE void ConvertRow(const typename E::T* src, int64_t count,
                           float factor, float* dst) {
  const DF df;
  const auto n = static_cast<int64_t>(hn::Lanes(df));
  const VF f = hn::Set(df, factor);
  int64_t i = 0;
  for (; i + n <= count; i += n) {
    hn::StoreU(hn::Mul(f, E::Load(src + i)), df, dst + i);
  }
  if (i < count) {
    const auto rest = static_cast<size_t>(count - i);
    StoreFirst(hn::Mul(f, LoadFirst<E>(src + i, rest)), dst + i, rest);
  }
}

// Applies cap, bias and mask of query row t of head g to the scores s of key
// rows [first, first + count). s must have room for `count` scores, rounded up
// to full vectors.
inline void AdjustScores(const AttentionSlice& in, int64_t g, int64_t t,
                         int64_t first, int64_t count, float* s) {
  const DF df;
  if (in.soft_cap != 0) {
    const VF cap = hn::Set(df, in.soft_cap);
    for (int64_t i = 0; i < count; i += int64_t(hn::Lanes(df))) {
      const VF x = hn::Div(hn::LoadU(df, s + i), cap);
      hn::StoreU(hn::Mul(cap, TanhV(x)), df, s + i);
    }
  }
  if (in.bias != nullptr) {
    const float* const bias =
        in.bias + g * in.bias_head_stride + t * in.bias_row_stride + first;
    for (int64_t i = 0; i < count; ++i) s[i] += bias[i];
  }
  if (in.mask != nullptr) {
    const uint8_t* const mask =
        in.mask + g * in.mask_head_stride + t * in.mask_row_stride + first;
    for (int64_t i = 0; i < count; ++i) {
      if (mask[i] == 0) s[i] = -std::numeric_limits<float>::infinity();
    }
  }
}

HWY_INLINE bool AdjustsScores(const AttentionSlice& in) {
  return in.soft_cap != 0 || in.bias != nullptr || in.mask != nullptr;
}

// Returns the largest lane. On the EMU128 target, Highway's maximum begins at
// the lowest finite number, so lanes that are all minus infinity are handled
// first.
HWY_INLINE float MostOfLanes(VF v) {
  const DF df;
#if HWY_TARGET == HWY_EMU128
  const float lowest = -std::numeric_limits<float>::infinity();
  if (hn::AllTrue(df, hn::Eq(v, hn::Set(df, lowest)))) return lowest;
#endif
  return hn::GetLane(hn::MaxOfLanes(df, v));
}

// Replaces scores c in [c0, c1) that are outside of [lo, hi) by minus infinity,
// and returns the largest score inside [lo, hi). c0 and c1 are multiples of
// twice the number of lanes of a vector.
HWY_INLINE float MaskRow(int64_t c0, int64_t c1, int64_t lo, int64_t hi,
                         float* HWY_RESTRICT s) {
  const DF df;
  const DI di;
  const auto n = static_cast<int64_t>(hn::Lanes(df));
  const VF none = hn::Set(df, -std::numeric_limits<float>::infinity());
  VF m0 = none;
  VF m1 = none;
  const auto seen = [&](int64_t c, VF x) HWY_ATTR {
    const auto at = hn::Iota(di, static_cast<int32_t>(c));
    const auto in =
        hn::And(hn::Gt(at, hn::Set(di, static_cast<int32_t>(lo) - 1)),
                hn::Lt(at, hn::Set(di, static_cast<int32_t>(hi))));
    return hn::IfThenElse(hn::RebindMask(df, in), x, none);
  };
  for (int64_t c = c0; c < c1; c += 2 * n) {
    VF x0 = hn::LoadU(df, s + c);
    VF x1 = hn::LoadU(df, s + c + n);
    if (c < lo || c + 2 * n > hi) {
      x0 = seen(c, x0);
      x1 = seen(c + n, x1);
      hn::StoreU(x0, df, s + c);
      hn::StoreU(x1, df, s + c + n);
    }
    m0 = hn::Max(m0, x0);
    m1 = hn::Max(m1, x1);
  }
  return MostOfLanes(hn::Max(m0, m1));
}

// Replaces scores s[c0, c1) by weights in place. Entries outside of [lo, hi)
// are masked: their weights are 0. c0 and c1 are multiples of twice the number
// of lanes of a vector. A weight's index alone decides to which lane of the sum
// it is added, so the sum does not depend on c0 and c1. Updates max and sum,
// and returns the factor by which the caller must multiply the output
// accumulated before.
HWY_INLINE float SoftmaxRow(int64_t c0, int64_t c1, int64_t lo, int64_t hi,
                            float* HWY_RESTRICT s, float& max, float& sum) {
  const DF df;
  const auto n = static_cast<int64_t>(hn::Lanes(df));
  const float lowest = -std::numeric_limits<float>::infinity();
  const float before = max;
  const float row = MaskRow(c0, c1, lo, hi, s);
  const float now = row > before ? row : before;
  if (now == lowest) {
    for (int64_t c = c0; c < c1; c += n) hn::StoreU(hn::Zero(df), df, s + c);
    return 1;
  }
  const VF shift = hn::Set(df, now);
  VF sum0 = hn::Zero(df);
  VF sum1 = hn::Zero(df);
  for (int64_t c = c0; c < c1; c += 2 * n) {
    const VF p0 = ExpNonPositiveV(hn::Sub(hn::LoadU(df, s + c), shift));
    const VF p1 = ExpNonPositiveV(hn::Sub(hn::LoadU(df, s + c + n), shift));
    hn::StoreU(p0, df, s + c);
    hn::StoreU(p1, df, s + c + n);
    sum0 = hn::Add(sum0, p0);
    sum1 = hn::Add(sum1, p1);
  }
  float alpha = 1;
  if (before != now) {
    alpha = hn::GetLane(ExpNonPositiveV(hn::Set(df, before - now)));
  }
  max = now;
  sum = sum * alpha + hn::GetLane(hn::SumOfLanes(df, hn::Add(sum0, sum1)));
  return alpha;
}

}  // namespace shardc::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SHARDC_EXEC_KERNELS_ATTENTION_SIMD_INL_H_
