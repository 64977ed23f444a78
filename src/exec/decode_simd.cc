// Attention of few query rows over a long cache: every key and value is read
// once, and the reading is what takes the time (about 10 bytes a cycle from
// memory, against 128 that the products could eat).
//
// Keys go by in blocks of kDecodeBlock from row 0. A score is one sum per
// lane over the dims, then a tree over the lanes; an output is one chain over
// the keys. Query rows of the same key head share the block while it is in
// the first-level cache. Rows to come are prefetched: the processor's own
// prefetchers lose the thread where rows lie a page apart.
//
// tests/exec/attention_kernels_test.cc compares with kernel_loops.h.

#include <limits>

#include "exec/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/decode_simd.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // before highway.h: includes this file again
#include <hwy/highway.h>

#include "exec/attention_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shardc::exec::HWY_NAMESPACE {

constexpr int64_t kDecodeBlock = 64;
constexpr int64_t kLine = 64;  // bytes

template <class E>
HWY_INLINE void PrefetchRow(const typename E::T* row, int64_t count) {
  const auto* const bytes = reinterpret_cast<const char*>(row);
  const int64_t size = count * static_cast<int64_t>(sizeof(typename E::T));
  for (int64_t i = 0; i < size; i += kLine) hwy::Prefetch(bytes + i);
}

// q . k for four rows of keys, all lanes' sums still apart.
template <class E>
HWY_INLINE void DotFour(const float* HWY_RESTRICT q, const typename E::T* k,
                        int64_t stride, int64_t dim, float* scores) {
  const DF df;
  const auto n = static_cast<int64_t>(hn::Lanes(df));
  VF s0 = hn::Zero(df);
  VF s1 = s0;
  VF s2 = s0;
  VF s3 = s0;
  int64_t d = 0;
  for (; d + n <= dim; d += n) {
    const VF x = hn::LoadU(df, q + d);
    s0 = hn::MulAdd(x, E::Load(k + d), s0);
    s1 = hn::MulAdd(x, E::Load(k + d + stride), s1);
    s2 = hn::MulAdd(x, E::Load(k + d + 2 * stride), s2);
    s3 = hn::MulAdd(x, E::Load(k + d + 3 * stride), s3);
  }
  if (d < dim) {
    const auto rest = static_cast<size_t>(dim - d);
    const VF x = LoadFirst<F32Element>(q + d, rest);
    s0 = hn::MulAdd(x, LoadFirst<E>(k + d, rest), s0);
    s1 = hn::MulAdd(x, LoadFirst<E>(k + d + stride, rest), s1);
    s2 = hn::MulAdd(x, LoadFirst<E>(k + d + 2 * stride, rest), s2);
    s3 = hn::MulAdd(x, LoadFirst<E>(k + d + 3 * stride, rest), s3);
  }
  scores[0] = hn::GetLane(hn::SumOfLanes(df, s0));
  scores[1] = hn::GetLane(hn::SumOfLanes(df, s1));
  scores[2] = hn::GetLane(hn::SumOfLanes(df, s2));
  scores[3] = hn::GetLane(hn::SumOfLanes(df, s3));
}

// out[0, kWidth vectors) = alpha * out + sum of weights[k] * v[k], k in order.
template <class E, int64_t kWidth>
HWY_INLINE void AddValues(const float* weights, const typename E::T* v,
                          int64_t stride, int64_t count, float alpha,
                          float* HWY_RESTRICT out) {
  const DF df;
  const auto n = static_cast<int64_t>(hn::Lanes(df));
  VF acc[kWidth];
#pragma GCC unroll 8
  for (int64_t i = 0; i < kWidth; ++i) {
    acc[i] = hn::Mul(hn::Set(df, alpha), hn::LoadU(df, out + i * n));
  }
  for (int64_t k = 0; k < count; ++k) {
    const VF w = hn::Set(df, weights[k]);
#pragma GCC unroll 8
    for (int64_t i = 0; i < kWidth; ++i) {
      acc[i] = hn::MulAdd(w, E::Load(v + i * n), acc[i]);
    }
    v += stride;
  }
#pragma GCC unroll 8
  for (int64_t i = 0; i < kWidth; ++i) hn::StoreU(acc[i], df, out + i * n);
}

// The dims after the last whole vector.
template <class E>
HWY_INLINE void AddLastValues(const float* weights, const typename E::T* v,
                              int64_t stride, int64_t count, float alpha,
                              size_t rest, float* HWY_RESTRICT out) {
  const DF df;
  VF acc = hn::Mul(hn::Set(df, alpha), LoadFirst<F32Element>(out, rest));
  for (int64_t k = 0; k < count; ++k) {
    acc = hn::MulAdd(hn::Set(df, weights[k]),
                     LoadFirst<E>(v + k * stride, rest), acc);
  }
  StoreFirst(acc, out, rest);
}

template <class E>
HWY_INLINE void AddBlock(const float* weights, const typename E::T* v,
                         int64_t stride, int64_t count, int64_t dim,
                         float alpha, float* out) {
  const auto n = static_cast<int64_t>(hn::Lanes(DF()));
  int64_t d = 0;
  for (; d + 8 * n <= dim; d += 8 * n) {
    AddValues<E, 8>(weights, v + d, stride, count, alpha, out + d);
  }
  for (; d + 4 * n <= dim; d += 4 * n) {
    AddValues<E, 4>(weights, v + d, stride, count, alpha, out + d);
  }
  for (; d + n <= dim; d += n) {
    AddValues<E, 1>(weights, v + d, stride, count, alpha, out + d);
  }
  if (d < dim) {
    AddLastValues<E>(weights, v + d, stride, count, alpha,
                     static_cast<size_t>(dim - d), out + d);
  }
}

// Scores of rows [lo, hi) of the block, four at a time; the last four may
// overlap, since a score does not depend on its neighbours.
template <class E>
HWY_INLINE void BlockScores(const float* q, const typename E::T* key,
                            int64_t stride, int64_t dim, int64_t lo, int64_t hi,
                            float* scores) {
  int64_t k = lo;
  for (; k + 4 <= hi; k += 4) {
    DotFour<E>(q, key + k * stride, stride, dim, scores + k);
  }
  for (; k < hi; ++k) {
    float four[4];
    DotFour<E>(q, key + k * stride, 0, dim, four);
    scores[k] = four[0];
  }
}

template <class E>
void DecodeWith(const AttentionSlice& in, const AttentionState& state,
                const float* query) {
  const auto* const keys = static_cast<const typename E::T*>(in.key);
  const auto* const values = static_cast<const typename E::T*>(in.value);
  alignas(64) float scores[kDecodeBlock + 64];  // whole vectors from any start
  for (int64_t first = 0; first < in.key_rows; first += kDecodeBlock) {
    const int64_t count = HWY_MIN(kDecodeBlock, in.key_rows - first);
    const auto* const key = keys + first * in.key_row_stride;
    const auto* const value = values + first * in.value_row_stride;
    for (int64_t row = 0; row < in.heads * in.query_rows; ++row) {
      const int64_t g = row / in.query_rows;
      const int64_t t = row % in.query_rows;
      const Rows seen = RowsOf(in, t);
      const int64_t lo = HWY_MAX(seen.begin - first, int64_t{0});
      const int64_t hi = HWY_MIN(seen.end - first, count);
      if (lo >= hi) continue;
      if (row == 0) {
        for (int64_t k = lo; k < hi; ++k) {
          PrefetchRow<E>(value + k * in.value_row_stride, in.value_dim);
        }
      }
      BlockScores<E>(query + row * in.head_dim, key, in.key_row_stride,
                     in.head_dim, lo, hi, scores);
      if (in.key_scale != nullptr) {
        for (int64_t k = lo; k < hi; ++k) {
          scores[k] *= RowScale(in.key_scale, in.scale_stride, first + k);
        }
      }
      if (AdjustsScores(in)) {
        AdjustScores(in, g, t, first + lo, hi - lo, scores + lo);
      }
      const float alpha = SoftmaxRow(0, kDecodeBlock, lo, hi, scores,
                                     state.max[row], state.sum[row]);
      if (in.value_scale != nullptr) {
        for (int64_t k = lo; k < hi; ++k) {
          scores[k] *= RowScale(in.value_scale, in.scale_stride, first + k);
        }
      }
      if (row + 1 == in.heads * in.query_rows) {
        const int64_t next = HWY_MIN(kDecodeBlock, in.key_rows - first - count);
        for (int64_t k = 0; k < next; ++k) {
          PrefetchRow<E>(key + (count + k) * in.key_row_stride, in.head_dim);
        }
      }
      AddBlock<E>(scores + lo, value + lo * in.value_row_stride,
                  in.value_row_stride, hi - lo, in.value_dim, alpha,
                  state.out + row * in.value_dim);
    }
  }
}

void Decode(const AttentionSlice& in, const AttentionState& state,
            Scratch& scratch) {
  const auto size = static_cast<size_t>(in.heads * in.query_rows * in.head_dim);
  scratch.Reset(Scratch::Bytes<float>(size));
  float* const query = scratch.Take<float>(size);
  WithElement(in.query_dtype, [&](auto element) {
    using E = decltype(element);
    const auto* const q = static_cast<const typename E::T*>(in.query);
    for (int64_t row = 0; row < in.heads * in.query_rows; ++row) {
      ConvertRow<E>(q + row / in.query_rows * in.query_head_stride +
                        row % in.query_rows * in.query_row_stride,
                    in.head_dim, in.scale, query + row * in.head_dim);
    }
  });
  WithElement(in.kv_dtype, [&](auto element) {
    DecodeWith<decltype(element)>(in, state, query);
  });
}

}  // namespace shardc::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shardc::exec {

HWY_EXPORT(Decode);

void DecodeAttention(const AttentionSlice& slice, const AttentionState& state,
                     Scratch& scratch) {
  HWY_DYNAMIC_DISPATCH(Decode)(slice, state, scratch);
}

}  // namespace shardc::exec
#endif  // HWY_ONCE
