// Attention of few query rows over a long cache: every key and value is read
// once, and the reading is what takes the time (about 10 bytes a cycle from
// memory, against 128 that the products could eat).
//
// So memory is read in nearly its own order. Keys go by in blocks of
// kDecodeBlock from row 0, and within a block a few positions at a time
// through all rows (query heads of all slices), first keys, then softmax,
// then values: the heads of a position lie side by side. Positions of a page
// or more each are streams that the processor follows by itself, the more at
// once the better; of smaller ones several share a page, where it loses them,
// and rows to come are prefetched (a third, or up to twice, as fast).
//
// A score is one sum per lane over the dims, then a tree over the lanes; an
// output is one chain over the keys: neither depends on the other rows.
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

constexpr int64_t kDecodeBlock = 128;
constexpr int64_t kKeysTogether = 4;    // share a load of the query
constexpr int64_t kValuesTogether = 8;  // share a load of the output
constexpr int64_t kPage = 4096;         // bytes

// How a walk over positions goes, by their distance in bytes.
struct Pace {
  int64_t step;   // positions that all rows pass before the next
  int64_t ahead;  // rows prefetched ahead, or 0
};
HWY_INLINE Pace KeyPace(int64_t bytes) {
  return bytes >= kPage ? Pace{16, 0} : Pace{kKeysTogether, 8};
}
HWY_INLINE Pace ValuePace(int64_t bytes) {
  return Pace{kValuesTogether, bytes >= kPage ? 0 : 8};
}

// Sums of the lanes of four vectors: each the same tree.
HWY_INLINE void SumFour(VF s0, VF s1, VF s2, VF s3, float* sums) {
#if HWY_TARGET == HWY_SCALAR
  sums[0] = hn::GetLane(s0);
  sums[1] = hn::GetLane(s1);
  sums[2] = hn::GetLane(s2);
  sums[3] = hn::GetLane(s3);
#else
  const DF df;
  const hn::Repartition<double, DF> dd;
  const auto a0 = hn::BitCast(dd, hn::InterleaveLower(df, s0, s1));
  const auto a1 = hn::BitCast(dd, hn::InterleaveLower(df, s2, s3));
  const auto b0 = hn::BitCast(dd, hn::InterleaveUpper(df, s0, s1));
  const auto b1 = hn::BitCast(dd, hn::InterleaveUpper(df, s2, s3));
  const VF x = hn::Add(hn::BitCast(df, hn::InterleaveLower(dd, a0, a1)),
                       hn::BitCast(df, hn::InterleaveUpper(dd, a0, a1)));
  const VF y = hn::Add(hn::BitCast(df, hn::InterleaveLower(dd, b0, b1)),
                       hn::BitCast(df, hn::InterleaveUpper(dd, b0, b1)));
  // Lane r of every block now holds a part of row r.
  AddBlocks(df, hn::Add(x, y), sums);
#endif
}

// q . k for four rows of keys.
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
  SumFour(s0, s1, s2, s3, scores);
}

// out = alpha * out + w[0] * v row 0 + w[1] * v row 1 ..., in this order.
template <class E, int64_t kCount>
HWY_INLINE void AddRows(const float* w, const typename E::T* v, int64_t stride,
                        int64_t dim, float alpha, float* HWY_RESTRICT out) {
  const DF df;
  const auto n = static_cast<int64_t>(hn::Lanes(df));
  const VF factor = hn::Set(df, alpha);
  int64_t d = 0;
  for (; d + n <= dim; d += n) {
    VF sum = hn::Mul(factor, hn::LoadU(df, out + d));
#pragma GCC unroll 8
    for (int64_t k = 0; k < kCount; ++k) {
      sum = hn::MulAdd(hn::Set(df, w[k]), E::Load(v + k * stride + d), sum);
    }
    hn::StoreU(sum, df, out + d);
  }
  if (d < dim) {
    const auto rest = static_cast<size_t>(dim - d);
    VF sum = hn::Mul(factor, LoadFirst<F32Element>(out + d, rest));
    for (int64_t k = 0; k < kCount; ++k) {
      sum = hn::MulAdd(hn::Set(df, w[k]),
                       LoadFirst<E>(v + k * stride + d, rest), sum);
    }
    StoreFirst(sum, out + d, rest);
  }
}

// One query row of one slice, on its way through a block of keys.
struct DecodeRow {
  const AttentionSlice* in;
  float* max;
  float* sum;
  float* out;
  const float* query;  // [D], scaled
  float* scores;       // [kDecodeBlock], and room for a vector
  int64_t head, row;   // g, t
  Rows seen;
  int64_t lo, hi;  // of the current block
  float alpha;
};

// Scores of keys [k, k + pace.step) of the block at `first`.
template <class E>
HWY_INLINE void ScoreRows(const DecodeRow& r, int64_t first, int64_t k,
                          const Pace& pace) {
  const AttentionSlice& in = *r.in;
  const int64_t end = HWY_MIN(k + pace.step, r.hi);
  if (end <= r.lo) return;
  const int64_t stride = in.key_row_stride;
  const auto* const keys =
      static_cast<const typename E::T*>(in.key) + first * stride;
  for (; k < end; k += kKeysTogether) {
    const auto* const key = keys + k * stride;
    const int64_t count = HWY_MIN(kKeysTogether, end - k);
    if (pace.ahead != 0) {
      for (int64_t j = 0; j < count; ++j) {
        PrefetchRow(key + (pace.ahead + j) * stride, in.head_dim);
      }
    }
    if (count == kKeysTogether) {
      DotFour<E>(r.query, key, stride, in.head_dim, r.scores + k);
      continue;
    }
    for (int64_t j = 0; j < count; ++j) {
      float same[kKeysTogether];
      DotFour<E>(r.query, key + j * stride, 0, in.head_dim, same);
      r.scores[k + j] = same[0];
    }
  }
}

// Adds values [k, k + kValuesTogether) of the block at `first`.
template <class E>
HWY_INLINE void ValueRows(DecodeRow& r, int64_t first, int64_t k,
                          const Pace& pace) {
  const AttentionSlice& in = *r.in;
  const int64_t count = HWY_MIN(kValuesTogether, r.hi - k);
  if (count <= 0 || k + count <= r.lo) return;
  const int64_t stride = in.value_row_stride;
  const auto* const value =
      static_cast<const typename E::T*>(in.value) + (first + k) * stride;
  if (pace.ahead != 0) {
    for (int64_t j = 0; j < count; ++j) {
      PrefetchRow(value + (pace.ahead + j) * stride, in.value_dim);
    }
  }
  if (count == kValuesTogether) {
    AddRows<E, kValuesTogether>(r.scores + k, value, stride, in.value_dim,
                                r.alpha, r.out);
    r.alpha = 1;
    return;
  }
  for (int64_t j = 0; j < count; ++j) {
    AddRows<E, 1>(r.scores + k + j, value + j * stride, 0, in.value_dim,
                  r.alpha, r.out);
    r.alpha = 1;
  }
}

HWY_INLINE void ScaleScores(const float* scales, int64_t stride, int64_t first,
                            const DecodeRow& r) {
  if (scales == nullptr) return;
  for (int64_t k = r.lo; k < r.hi; ++k) {
    r.scores[k] *= RowScale(scales, stride, first + k);
  }
}

void SoftmaxBlock(DecodeRow& r, int64_t first) {
  const AttentionSlice& in = *r.in;
  if (r.lo >= r.hi) return;
  ScaleScores(in.key_scale, in.scale_stride, first, r);
  if (AdjustsScores(in)) {
    AdjustScores(in, r.head, r.row, first + r.lo, r.hi - r.lo, r.scores + r.lo);
  }
  r.alpha = SoftmaxRow(0, kDecodeBlock, r.lo, r.hi, r.scores, *r.max, *r.sum);
  ScaleScores(in.value_scale, in.scale_stride, first, r);
}

template <class E>
void DecodeRows(DecodeRow* rows, int64_t row_count) {
  int64_t begin = std::numeric_limits<int64_t>::max();
  int64_t end = 0;
  for (int64_t i = 0; i < row_count; ++i) {
    begin = HWY_MIN(begin, rows[i].seen.begin);
    end = HWY_MAX(end, rows[i].seen.end);
  }
  if (begin >= end) return;
  constexpr auto kBytes = static_cast<int64_t>(sizeof(typename E::T));
  const Pace key_pace = KeyPace(rows->in->key_row_stride * kBytes);
  const Pace value_pace = ValuePace(rows->in->value_row_stride * kBytes);
  for (int64_t first = begin / kDecodeBlock * kDecodeBlock; first < end;
       first += kDecodeBlock) {
    int64_t last = 0;
    for (int64_t i = 0; i < row_count; ++i) {
      DecodeRow& r = rows[i];
      r.lo = HWY_MAX(r.seen.begin - first, int64_t{0});
      r.hi = HWY_MIN(r.seen.end - first, kDecodeBlock);
      last = HWY_MAX(last, r.hi);
    }
    for (int64_t k = 0; k < last; k += key_pace.step) {
      for (int64_t i = 0; i < row_count; ++i) {
        ScoreRows<E>(rows[i], first, k, key_pace);
      }
    }
    for (int64_t i = 0; i < row_count; ++i) SoftmaxBlock(rows[i], first);
    for (int64_t k = 0; k < last; k += value_pace.step) {
      for (int64_t i = 0; i < row_count; ++i) {
        ValueRows<E>(rows[i], first, k, value_pace);
      }
    }
  }
}

template <class E>
void ConvertQuery(const AttentionSlice& in, int64_t g, int64_t t, float* to) {
  const auto* const q = static_cast<const typename E::T*>(in.query);
  ConvertRow<E>(q + g * in.query_head_stride + t * in.query_row_stride,
                in.head_dim, in.scale, to);
}

void Decode(const AttentionSlice* slices, const AttentionState* states,
            size_t count, Scratch& scratch) {
  const auto size = [](int64_t x) { return static_cast<size_t>(x); };
  constexpr int64_t kScores = kDecodeBlock + 64;
  size_t row_count = 0;
  size_t query_size = 0;
  for (size_t i = 0; i < count; ++i) {
    const AttentionSlice& in = slices[i];
    row_count += size(in.heads * in.query_rows);
    query_size += size(in.heads * in.query_rows * in.head_dim);
  }
  if (row_count == 0) return;
  const size_t scores_size = row_count * size(kScores);
  scratch.Reset(Scratch::Bytes<float>(query_size) +
                Scratch::Bytes<float>(scores_size) +
                Scratch::Bytes<DecodeRow>(row_count));
  float* query = scratch.Take<float>(query_size);
  float* scores = scratch.Take<float>(scores_size);
  DecodeRow* const rows = scratch.Take<DecodeRow>(row_count);
  DecodeRow* r = rows;
  for (size_t i = 0; i < count; ++i) {
    const AttentionSlice& in = slices[i];
    for (int64_t g = 0; g < in.heads; ++g) {
      for (int64_t t = 0; t < in.query_rows; ++t) {
        WithElement(in.query_dtype, [&](auto element) {
          ConvertQuery<decltype(element)>(in, g, t, query);
        });
        const int64_t at = g * in.query_rows + t;
        *r++ = {&in,
                states[i].max + at,
                states[i].sum + at,
                states[i].out + at * in.value_dim,
                query,
                scores,
                g,
                t,
                RowsOf(in, t),
                0,
                0,
                1};
        query += in.head_dim;
        scores += kScores;
      }
    }
  }
  WithElement(slices[0].kv_dtype, [&](auto element) {
    DecodeRows<decltype(element)>(rows, static_cast<int64_t>(row_count));
  });
}

}  // namespace shardc::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shardc::exec {

HWY_EXPORT(Decode);

void DecodeAttention(std::span<const AttentionSlice> slices,
                     std::span<const AttentionState> states, Scratch& scratch) {
  HWY_DYNAMIC_DISPATCH(Decode)
  (slices.data(), states.data(), slices.size(), scratch);
}

}  // namespace shardc::exec
#endif  // HWY_ONCE
