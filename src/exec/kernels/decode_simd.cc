// Computes attention of few query rows over a long cache. Reading the keys and
// values takes most of the time: memory delivers about 10 bytes per cycle, and
// the arithmetic could process 128. Each cache line is therefore read only
// once, in nearly ascending order.
//
// Keys are processed in blocks of kDecodeBlock, starting at row 0. For each
// block, the kernel computes the products with keys, then the softmax, then the
// products with values. The heads of a position are contiguous in memory. A
// position is read for all query heads of all slices before the next position
// is read. Values are read in two sequential streams: two positions at a time,
// half a block apart. Keys are read in two streams as well where that is
// faster, otherwise one position at a time (floats/bf16_products.h). Lines
// slightly ahead are prefetched.
//
// A score has one partial sum per lane, and the lanes are added as a tree. For
// example, the score of a head of 128 dims on AVX2 adds 8 lanes, each of which
// is the sum of 16 products. An output adds the keys one after the other, in
// the order in which values are read. Neither sum depends on the other rows.
//
// tests/exec/kernels/attention_kernels_test.cc compares the results with loops.

#include <limits>

#include "exec/kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/kernels/decode_simd.cc"
#include <hwy/cache_control.h>
// foreach_target.h must precede highway.h. It includes this file once more for
// each instruction set.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "exec/kernels/attention_simd-inl.h"
#include "floats/bf16_products.h"
#include "floats/targets_simd.h"

HWY_BEFORE_NAMESPACE();
namespace shardc::exec::HWY_NAMESPACE {

constexpr int64_t kDecodeBlock = 1024;
constexpr int64_t kHalf = kDecodeBlock / 2;

// The order in which the keys and values of a block are read: positions k and
// k + kHalf together. While a row is read, the memory kKeysAhead or
// kValuesAhead bytes ahead of it is prefetched; 0 means no prefetching.
//
// The best distance depends on the size of an element. On an Intel Xeon,
// decoding of int8 was 1.08 times as fast with a distance of 2048 bytes as with
// 4096, the distance for bfloat16.
template <class E>
struct TwoStreams {
  static constexpr bool kOneKey = false;
  static constexpr int64_t kSize = sizeof(typename E::T);
  static constexpr int64_t kKeysAhead = kSize >= 4   ? 1536
                                        : kSize == 2 ? 4096
                                                     : 2048;
  static constexpr int64_t kValuesAhead = kKeysAhead;
};
// An order that reads one key at a time for all rows. Values are read as in
// TwoStreams, so that outputs have the same bits.
template <class E>
struct OneStream {
  static constexpr bool kOneKey = true;
  static constexpr int64_t kKeysAhead = 0;
  static constexpr int64_t kValuesAhead = 256;
};

// Stores the sum of the lanes of each of four vectors in `sums`. The lanes of
// all four vectors are added in the same order.
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
  // Lane r of each 128-bit block now holds a part of the sum of vector r.
  AddBlocks(df, hn::Add(x, y), sums);
#endif
}

// Rows are read in pairs of vectors, whose elements E::Load2 may permute.
// Queries and outputs are therefore stored in the permuted order, and padded
// with zeros to full pairs.
HWY_INLINE int64_t PairLanes() {
  return 2 * static_cast<int64_t>(hn::Lanes(DF()));
}
HWY_INLINE int64_t Padded(int64_t dim) { return RoundUp(dim, PairLanes()); }

// Loads the last `count` elements of a row, which do not fill a pair of
// vectors. Writes them to `to` as one pair, padded with zeros.
template <class E>
HWY_NOINLINE void Load2First(const typename E::T* p, int64_t count, float* to) {
  alignas(64) typename E::T all[2 * 64] = {};
  for (int64_t i = 0; i < count; ++i) all[i] = p[i];
  VF x;
  VF y;
  E::Load2(all, x, y);
  hn::StoreU(x, DF(), to);
  hn::StoreU(y, DF(), to + hn::Lanes(DF()));
}

template <class E, int64_t kAhead>
HWY_INLINE void PrefetchPair(const typename E::T* p) {
  if constexpr (kAhead == 0) return;
  const auto* const bytes = reinterpret_cast<const char*>(p) + kAhead;
  constexpr size_t kPair = 2 * hn::MaxLanes(DF()) * sizeof(typename E::T);
  hwy::Prefetch(bytes);
  if constexpr (kPair > kLine) hwy::Prefetch(bytes + kLine);
}

// Returns the product of q and k as one partial sum per lane. The caller adds
// the lanes.
template <class E, int64_t kAhead>
HWY_INLINE VF Dot(const float* HWY_RESTRICT q, const typename E::T* k,
                  int64_t dim) {
  const DF df;
  const int64_t n = PairLanes() / 2;
  VF even = hn::Zero(df);
  VF odd = even;
  VF x;
  VF y;
  int64_t d = 0;
#pragma GCC unroll 4
  for (; d + 2 * n <= dim; d += 2 * n) {
    PrefetchPair<E, kAhead>(k + d);
    E::Load2(k + d, x, y);
    even = hn::MulAdd(hn::LoadU(df, q + d), x, even);
    odd = hn::MulAdd(hn::LoadU(df, q + d + n), y, odd);
  }
  if (d < dim) {
    alignas(64) float rest[2 * 64];
    Load2First<E>(k + d, dim - d, rest);
    even = hn::MulAdd(hn::LoadU(df, q + d), hn::LoadU(df, rest), even);
    odd = hn::MulAdd(hn::LoadU(df, q + d + n), hn::LoadU(df, rest + n), odd);
  }
  return hn::Add(even, odd);
}

// Computes out += w[0] * v[0] + w[1] * v[1] + ..., in this order.
template <class E, int64_t kCount, int64_t kAhead>
HWY_INLINE void AddRows(const float* w, const typename E::T* const* v,
                        int64_t dim, float* HWY_RESTRICT out) {
  const DF df;
  const int64_t n = PairLanes() / 2;
  VF x;
  VF y;
  int64_t d = 0;
#pragma GCC unroll 4
  for (; d + 2 * n <= dim; d += 2 * n) {
    VF even = hn::LoadU(df, out + d);
    VF odd = hn::LoadU(df, out + d + n);
#pragma GCC unroll 8
    for (int64_t k = 0; k < kCount; ++k) {
      PrefetchPair<E, kAhead>(v[k] + d);
      E::Load2(v[k] + d, x, y);
      even = hn::MulAdd(hn::Set(df, w[k]), x, even);
      odd = hn::MulAdd(hn::Set(df, w[k]), y, odd);
    }
    hn::StoreU(even, df, out + d);
    hn::StoreU(odd, df, out + d + n);
  }
  if (d < dim) {
    VF even = hn::LoadU(df, out + d);
    VF odd = hn::LoadU(df, out + d + n);
    alignas(64) float rest[2 * 64];
    for (int64_t k = 0; k < kCount; ++k) {
      Load2First<E>(v[k] + d, dim - d, rest);
      even = hn::MulAdd(hn::Set(df, w[k]), hn::LoadU(df, rest), even);
      odd = hn::MulAdd(hn::Set(df, w[k]), hn::LoadU(df, rest + n), odd);
    }
    hn::StoreU(even, df, out + d);
    hn::StoreU(odd, df, out + d + n);
  }
}

HWY_INLINE void ScaleRow(float factor, int64_t count, float* out) {
  if (factor != 1) ConvertRow<F32Element>(out, count, factor, out);
}

// One query row of one slice, and its running softmax, while a block of keys is
// processed.
struct DecodeRow {
  const AttentionSlice* in;
  float* max;
  float* sum;
  // The scaled query [D] and the output [Dv], in the order in which E::Load2
  // loads elements. Load2 may load the elements at even indices first.
  float* query;
  float* out;
  float* scores;      // [kDecodeBlock], padded by one vector
  int64_t head, row;  // indices of the head and of the query row
  // The keys of the slice that the row attends to.
  Rows seen;
  int64_t lo, hi;  // the visible keys [lo, hi) of the current block
  // True for a slice's first row, which prefetches for all rows.
  bool prefetches;
  bool Sees(int64_t k) const { return k >= lo && k < hi; }
};

template <class E>
HWY_INLINE const typename E::T* KeyAt(const DecodeRow& r, int64_t k) {
  return static_cast<const typename E::T*>(r.in->key) +
         k * r.in->key_row_stride;
}
template <class E>
HWY_INLINE const typename E::T* ValueAt(const DecodeRow& r, int64_t k) {
  return static_cast<const typename E::T*>(r.in->value) +
         k * r.in->value_row_stride;
}

// Returns the product of row r with key k of the block that begins at key
// `first`, as one partial sum per lane. Returns zero if row r does not attend
// to the key.
template <class E, bool kAll, class Order>
HWY_INLINE VF KeyDot(const DecodeRow& r, int64_t first, int64_t k) {
  if (!kAll && !r.Sees(k)) return hn::Zero(DF());
  const auto* const key = KeyAt<E>(r, first + k);
  return r.prefetches ? Dot<E, Order::kKeysAhead>(r.query, key, r.in->head_dim)
                      : Dot<E, 0>(r.query, key, r.in->head_dim);
}

// Computes the scores of keys k and k + kHalf, for two rows. The block begins
// at key `first`. kAll is true if every row attends to every key of the block.
template <class E, bool kAll, class Order>
HWY_INLINE void ScoreKeys(const DecodeRow& a, const DecodeRow& b, int64_t first,
                          int64_t k) {
  const VF a0 = KeyDot<E, kAll, Order>(a, first, k);
  const VF a1 = KeyDot<E, kAll, Order>(a, first, k + kHalf);
  const VF b0 = KeyDot<E, kAll, Order>(b, first, k);
  const VF b1 = KeyDot<E, kAll, Order>(b, first, k + kHalf);
  float sums[4];
  SumFour(a0, a1, b0, b1, sums);
  a.scores[k] = sums[0];
  a.scores[k + kHalf] = sums[1];
  b.scores[k] = sums[2];
  b.scores[k + kHalf] = sums[3];
}

// Computes the scores of key k of the block at `first` for rows i to i + 3. If
// fewer than four of the `count` rows are left, the last row is computed
// several times.
template <class E, bool kAll, class Order>
HWY_INLINE void ScoreKey(const DecodeRow* rows, int64_t i, int64_t count,
                         int64_t first, int64_t k) {
  const auto row = [&](int64_t r) -> const DecodeRow& {
    return rows[HWY_MIN(i + r, count - 1)];
  };
  const VF s0 = KeyDot<E, kAll, Order>(row(0), first, k);
  const VF s1 = KeyDot<E, kAll, Order>(row(1), first, k);
  const VF s2 = KeyDot<E, kAll, Order>(row(2), first, k);
  const VF s3 = KeyDot<E, kAll, Order>(row(3), first, k);
  float sums[4];
  SumFour(s0, s1, s2, s3, sums);
  for (int64_t r = 0; r < 4; ++r) row(r).scores[k] = sums[r];
}

// Computes the scores of all rows for the block at key `first`, which has
// `keys` keys.
template <class E, bool kAll, class Order>
HWY_INLINE void ScoreBlock(const DecodeRow* rows, int64_t count, int64_t first,
                           int64_t keys) {
  if constexpr (Order::kOneKey) {
    for (int64_t k = 0; k < keys; ++k) {
      for (int64_t i = 0; i < count; i += 4) {
        ScoreKey<E, kAll, Order>(rows, i, count, first, k);
      }
    }
  } else {
    for (int64_t k = 0; k < HWY_MIN(keys, kHalf); ++k) {
      for (int64_t i = 0; i < count; i += 2) {
        ScoreKeys<E, kAll, Order>(rows[i], rows[HWY_MIN(i + 1, count - 1)],
                                  first, k);
      }
    }
  }
}

// Adds values k and k + kHalf of the block at `first`, times their weights, to
// the output of row r. Skips values of keys that the row does not attend to.
template <class E, bool kAll, class Order>
HWY_INLINE void AddValues(const DecodeRow& r, int64_t first, int64_t k) {
  const bool one = kAll || r.Sees(k);
  const bool two = kAll || r.Sees(k + kHalf);
  // The values of masked keys are not read, because they may be beyond the end
  // of the cache.
  if (!one && !two) return;
  const int64_t dim = r.in->value_dim;
  const typename E::T* v[2] = {ValueAt<E>(r, first + k),
                               ValueAt<E>(r, first + k + kHalf)};
  const float w[2] = {r.scores[k], r.scores[k + kHalf]};
  if (one && two && r.prefetches) {
    AddRows<E, 2, Order::kValuesAhead>(w, v, dim, r.out);
  } else if (one && two) {
    AddRows<E, 2, 0>(w, v, dim, r.out);
  } else {
    const int64_t which = one ? 0 : 1;
    AddRows<E, 1, 0>(w + which, v + which, dim, r.out);
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
  const float alpha =
      SoftmaxRow(0, kDecodeBlock, r.lo, r.hi, r.scores, *r.max, *r.sum);
  ScaleRow(alpha, Padded(in.value_dim), r.out);
  ScaleScores(in.value_scale, in.scale_stride, first, r);
}

template <class E, bool kAll, class Order>
void DecodeBlock(DecodeRow* rows, int64_t count, int64_t first, int64_t keys) {
  ScoreBlock<E, kAll, Order>(rows, count, first, keys);
  for (int64_t i = 0; i < count; ++i) SoftmaxBlock(rows[i], first);
  for (int64_t k = 0; k < HWY_MIN(keys, kHalf); ++k) {
    for (int64_t i = 0; i < count; ++i) {
      AddValues<E, kAll, Order>(rows[i], first, k);
    }
  }
}

template <class E, class Order>
void DecodeRows(DecodeRow* rows, int64_t count) {
  int64_t begin = std::numeric_limits<int64_t>::max();
  int64_t end = 0;
  for (int64_t i = 0; i < count; ++i) {
    begin = HWY_MIN(begin, rows[i].seen.begin);
    end = HWY_MAX(end, rows[i].seen.end);
  }
  if (begin >= end) return;
  for (int64_t first = begin / kDecodeBlock * kDecodeBlock; first < end;
       first += kDecodeBlock) {
    int64_t last = 0;
    bool all = true;
    for (int64_t i = 0; i < count; ++i) {
      DecodeRow& r = rows[i];
      r.lo = HWY_MAX(r.seen.begin - first, int64_t{0});
      r.hi = HWY_MIN(r.seen.end - first, kDecodeBlock);
      last = HWY_MAX(last, r.hi);
      all = all && r.lo == 0 && r.hi == kDecodeBlock;
    }
    if (all) {
      DecodeBlock<E, true, Order>(rows, count, first, kDecodeBlock);
    } else {
      DecodeBlock<E, false, Order>(rows, count, first, last);
    }
  }
}

// Arrange pads a row of `count` floats with zeros to full pairs of vectors and
// permutes it as E::Load2 permutes. Restore reverses the permutation.
template <class E>
void Arrange(float* row, int64_t count) {
  for (int64_t i = count; i < Padded(count); ++i) row[i] = 0;
  if (!E::kApart) return;
  for (int64_t i = 0; i < count; i += PairLanes()) {
    VF even;
    VF odd;
    hn::LoadInterleaved2(DF(), row + i, even, odd);
    hn::StoreU(even, DF(), row + i);
    hn::StoreU(odd, DF(), row + i + hn::Lanes(DF()));
  }
}
template <class E>
void Restore(float* row, int64_t count) {
  if (!E::kApart) return;
  for (int64_t i = 0; i < count; i += PairLanes()) {
    const VF even = hn::LoadU(DF(), row + i);
    const VF odd = hn::LoadU(DF(), row + i + hn::Lanes(DF()));
    hn::StoreInterleaved2(even, odd, DF(), row + i);
  }
}

template <class E>
void ConvertQuery(const AttentionSlice& in, int64_t g, int64_t t, float* to) {
  const auto* const q = static_cast<const typename E::T*>(in.query);
  ConvertRow<E>(q + g * in.query_head_stride + t * in.query_row_stride,
                in.head_dim, in.scale, to);
}

template <class E>
void DecodeSlices(const AttentionSlice* slices, const AttentionState* states,
                  size_t count, Scratch& scratch, bool one_stream) {
  const auto size = [](int64_t x) { return static_cast<size_t>(x); };
  constexpr int64_t kScores = kDecodeBlock + 64;
  size_t row_count = 0;
  size_t floats = 0;
  for (size_t i = 0; i < count; ++i) {
    const AttentionSlice& in = slices[i];
    const size_t rows = size(in.heads * in.query_rows);
    row_count += rows;
    floats += rows * size(Padded(in.head_dim) + Padded(in.value_dim) + kScores);
  }
  if (row_count == 0) return;
  scratch.Reset(Scratch::Bytes<float>(floats) +
                Scratch::Bytes<DecodeRow>(row_count));
  float* free = scratch.Take<float>(floats);
  DecodeRow* const rows = scratch.Take<DecodeRow>(row_count);
  const auto take = [&](int64_t n) {
    float* const out = free;
    free += n;
    return out;
  };
  DecodeRow* r = rows;
  for (size_t i = 0; i < count; ++i) {
    const AttentionSlice& in = slices[i];
    for (int64_t g = 0; g < in.heads; ++g) {
      for (int64_t t = 0; t < in.query_rows; ++t) {
        const int64_t at = g * in.query_rows + t;
        r->in = &in;
        r->max = states[i].max + at;
        r->sum = states[i].sum + at;
        r->query = take(Padded(in.head_dim));
        r->out = take(Padded(in.value_dim));
        r->scores = take(kScores);
        r->head = g;
        r->row = t;
        r->prefetches = g == 0 && t == 0;
        r->seen = RowsOf(in, t);
        WithElement(in.query_dtype, [&](auto element) {
          ConvertQuery<decltype(element)>(in, g, t, r->query);
        });
        CopyFloats(states[i].out + at * in.value_dim, in.value_dim, r->out);
        Arrange<E>(r->query, in.head_dim);
        Arrange<E>(r->out, in.value_dim);
        ++r;
      }
    }
  }
  const auto all = static_cast<int64_t>(row_count);
  // Elements of one byte are always read in two streams: instructions rather
  // than memory limit their speed, and one stream was slower.
  if (one_stream && sizeof(typename E::T) > 1) {
    DecodeRows<E, OneStream<E>>(rows, all);
  } else {
    DecodeRows<E, TwoStreams<E>>(rows, all);
  }
  r = rows;
  for (size_t i = 0; i < count; ++i) {
    const AttentionSlice& in = slices[i];
    for (int64_t at = 0; at < in.heads * in.query_rows; ++at, ++r) {
      Restore<E>(r->out, in.value_dim);
      CopyFloats(r->out, in.value_dim, states[i].out + at * in.value_dim);
    }
  }
}

void Decode(const AttentionSlice* slices, const AttentionState* states,
            size_t count, Scratch& scratch, bool one_stream) {
  if (count == 0) return;
  WithElement(slices[0].kv_dtype, [&](auto element) {
    DecodeSlices<decltype(element)>(slices, states, count, scratch, one_stream);
  });
}

}  // namespace shardc::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shardc::exec {

SIMD_EXPORT(Decode);

void DecodeAttention(std::span<const AttentionSlice> slices,
                     std::span<const AttentionState> states, Scratch& scratch) {
  SIMD_DISPATCH(Decode)
  (slices.data(), states.data(), slices.size(), scratch, OneStreamIsFaster());
}

}  // namespace shardc::exec
#endif  // HWY_ONCE
