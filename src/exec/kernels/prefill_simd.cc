// Blocked attention for many query rows.
//
// Keys are processed in blocks of kKeyBlock; each block is packed once: K
// transposed into panels [D][NR] and V into panels [block][NR], NR two vectors
// wide, so that one panel stays in the first-level cache while all row tiles
// use it. The query is packed once, in tiles [D][MR]. Both products are then
// computed by the same loop over tiles of MR x NR sums in registers. Each sum
// is one chain of fused multiply-adds in ascending order. A skipped entry adds
// nothing and a masked entry adds zero, so a row does not depend on the other
// rows of its tile.
//
// A tile of MR rows x NR keys is skipped if all its keys come before the first
// or after the last key that any of its rows attends to. A causal mask
// therefore wastes about (NR + MR)/2 keys per row, not half a block: 4% for T =
// 1024 rows with 8 x 32 tiles.
//
// tests/exec/kernels/attention_kernels_test.cc compares the results with loops.

#include <limits>

#include "exec/kernels/kernels.h"
#include "exec/kernels/prefill_bf16.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/kernels/prefill_simd.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // before highway.h: includes this file again
#include <hwy/highway.h>

#include "exec/kernels/attention_simd-inl.h"
#include "floats/targets_simd.h"

HWY_BEFORE_NAMESPACE();
namespace shardc::exec::HWY_NAMESPACE {

// A tile has kRows x kVectors vectors of sums: 8 x 2 fit into 32 registers, and
// 4 x 2 into 16. A panel has at least four columns, so that rows can be packed
// by four.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
constexpr int64_t kRows = 8;
constexpr int64_t kVectors = 2;
#elif HWY_TARGET == HWY_SCALAR
constexpr int64_t kRows = 4;
constexpr int64_t kVectors = 4;
#else
constexpr int64_t kRows = 4;
constexpr int64_t kVectors = 2;
#endif
constexpr int64_t kTilesPerBlock = 128 / kRows;
// The distance between rows of scores. It is not a power of two, so that rows
// spread over the sets of the cache.
constexpr int64_t kScoreStride = kKeyBlock + 32;

// The number of rows between the row that is packed and the row that is
// prefetched. Prefetching past the end has no effect.
constexpr int64_t kAhead = 8;

HWY_INLINE int64_t PanelWidth() {  // NR
  return kVectors * static_cast<int64_t>(hn::Lanes(DF()));
}

struct RowTile {
  int64_t head;        // g
  int64_t row;         // first t
  int64_t rows;        // at most kRows
  int64_t begin, end;  // from the first to the last key that its rows see
};

// The packed operands and the running results of one call.
struct PackedCall {
  int64_t panel;       // NR: columns of a panel
  int64_t block;       // keys of a packed block
  int64_t out_panels;  // of Dv
  RowTile* tiles;
  int64_t tile_count;
  float* query;   // [tiles][D][MR]
  float* out;     // [tiles][out_panels][MR][NR]
  float* key;     // [panels][D][NR]
  float* value;   // [out_panels][block][NR]
  float* scores;  // [kTilesPerBlock*MR][kScoreStride]
  float* alpha;   // [kTilesPerBlock*MR]
  float* lines;   // [4][D]
};

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

// Transposes four rows of `count` floats: dst[c * stride + r] for r < 4.
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
    const int64_t step = 4 * stride;  // a block holds every fourth column
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
// + v*N], and calls use(r, v, sum[r][v]) for each of the sums.
#if HWY_HAVE_SCALABLE
// Vectors whose size is known only at run time cannot be elements of an array,
// so each sum is a variable of its own.
template <int64_t kAStep, int64_t kAStride, class F>
HWY_INLINE void MultiplyTile(const float* HWY_RESTRICT a,
                             const float* HWY_RESTRICT b, int64_t count,
                             const F& use) {
  static_assert(kRows == 4 && kVectors == 2);
  const DF df;
  const auto n = static_cast<int64_t>(hn::Lanes(df));
  VF s00 = hn::Zero(df), s01 = s00, s10 = s00, s11 = s00;
  VF s20 = s00, s21 = s00, s30 = s00, s31 = s00;
  for (int64_t k = 0; k < count; ++k, a += kAStep, b += kVectors * n) {
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
template <int64_t kAStep, int64_t kAStride, class F>
HWY_INLINE void MultiplyTile(const float* HWY_RESTRICT a,
                             const float* HWY_RESTRICT b, int64_t count,
                             const F& use) {
  const DF df;
  const auto n = static_cast<int64_t>(hn::Lanes(df));
  VF sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int64_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int64_t v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(df);
  }
  for (int64_t k = 0; k < count; ++k) {
    VF column[kVectors];
#pragma GCC unroll 4
    for (int64_t v = 0; v < kVectors; ++v) column[v] = hn::Load(df, b + v * n);
#pragma GCC unroll 8
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
#pragma GCC unroll 8
  for (int64_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int64_t v = 0; v < kVectors; ++v) use(r, v, sums[r][v]);
  }
}
#endif

HWY_INLINE void ScoreTile(const float* query, const float* key,
                          int64_t head_dim, float* scores) {
  const DF df;
  const auto n = static_cast<int64_t>(hn::Lanes(df));
  MultiplyTile<kRows, 1>(
      query, key, head_dim, [&](int64_t r, int64_t v, VF sum) HWY_ATTR {
        hn::Store(sum, df, scores + r * kScoreStride + v * n);
      });
}

HWY_INLINE void ValueTile(const float* weights, const float* value,
                          int64_t count, const float* alpha, float* out) {
  const DF df;
  const auto n = static_cast<int64_t>(hn::Lanes(df));
  MultiplyTile<1, kScoreStride>(
      weights, value, count, [&](int64_t r, int64_t v, VF sum) HWY_ATTR {
        float* const o = out + (r * kVectors + v) * n;
        hn::Store(hn::MulAdd(hn::Set(df, alpha[r]), hn::Load(df, o), sum), df,
                  o);
      });
}

void MakeTiles(const AttentionSlice& in, PackedCall& work) {
  RowTile* tile = work.tiles;
  for (int64_t g = 0; g < in.heads; ++g) {
    for (int64_t t = 0; t < in.query_rows; t += kRows) {
      *tile = {g, t, HWY_MIN(kRows, in.query_rows - t), in.key_rows, 0};
      for (int64_t r = t; r < t + tile->rows; ++r) {
        const Rows seen = RowsOf(in, r);
        if (seen.begin >= seen.end) continue;
        tile->begin = HWY_MIN(tile->begin, seen.begin);
        tile->end = HWY_MAX(tile->end, seen.end);
      }
      ++tile;
    }
  }
  work.tile_count = tile - work.tiles;
}

template <class E>
void PackQuery(const AttentionSlice& in, const PackedCall& work) {
  const auto* const query = static_cast<const typename E::T*>(in.query);
  const int64_t d = in.head_dim;
  for (int64_t i = 0; i < work.tile_count; ++i) {
    const RowTile& tile = work.tiles[i];
    float* const to = work.query + i * d * kRows;
    for (int64_t r = 0; r < kRows; r += 4) {
      for (int64_t j = 0; j < 4; ++j) {
        float* const line = work.lines + j * d;
        if (r + j >= tile.rows) {
          FillZero(line, d);
          continue;
        }
        const auto* const row = query + tile.head * in.query_head_stride +
                                (tile.row + r + j) * in.query_row_stride;
        PrefetchRow(row + kAhead * in.query_row_stride, d);
        ConvertRow<E>(row, d, in.scale, line);
      }
      TransposeFour(work.lines, d, d, to + r, kRows);
    }
  }
}

template <class E>
void PackKeys(const AttentionSlice& in, int64_t first, int64_t count,
              const PackedCall& work) {
  const auto* const key = static_cast<const typename E::T*>(in.key);
  const int64_t d = in.head_dim;
  for (int64_t k = 0; k < RoundUp(count, work.panel); k += 4) {
    for (int64_t j = 0; j < 4; ++j) {
      float* const line = work.lines + j * d;
      const int64_t row = first + k + j;
      if (k + j >= count) {
        FillZero(line, d);
      } else {
        PrefetchRow(key + (row + kAhead) * in.key_row_stride, d);
        ConvertRow<E>(key + row * in.key_row_stride, d,
                      RowScale(in.key_scale, in.scale_stride, row), line);
      }
    }
    TransposeFour(work.lines, d, d,
                  work.key + k / work.panel * d * work.panel + k % work.panel,
                  work.panel);
  }
}

template <class E>
void PackValues(const AttentionSlice& in, int64_t first, int64_t count,
                const PackedCall& work) {
  const auto* const value = static_cast<const typename E::T*>(in.value);
  const int64_t nr = work.panel;
  for (int64_t k = 0; k < count; ++k) {
    const int64_t row = first + k;
    const float scale = RowScale(in.value_scale, in.scale_stride, row);
    PrefetchRow(value + (row + kAhead) * in.value_row_stride, in.value_dim);
    for (int64_t p = 0; p < work.out_panels; ++p) {
      float* const to = work.value + (p * work.block + k) * nr;
      const int64_t dims = HWY_MIN(nr, in.value_dim - p * nr);
      ConvertRow<E>(value + row * in.value_row_stride + p * nr, dims, scale,
                    to);
      FillZero(to + dims, nr - dims);
    }
  }
}

// The keys of a block from the first to the last that rows of the tile attend
// to, as indices [begin, end) in the block, whose first key is `first`.
struct Seen {
  int64_t begin, end;
};
HWY_INLINE Seen SeenIn(const RowTile& tile, int64_t first, int64_t count) {
  return {HWY_MAX(tile.begin - first, int64_t{0}),
          HWY_MIN(tile.end - first, count)};
}

// Adds the packed block of keys to the rows of tiles [from, to).
void AttendBlock(const AttentionSlice& in, const AttentionState& state,
                 int64_t first, int64_t count, int64_t from, int64_t to,
                 const PackedCall& work) {
  const int64_t nr = work.panel;
  for (int64_t p = 0; p * nr < count; ++p) {
    const float* const key = work.key + p * in.head_dim * nr;
    for (int64_t i = from; i < to; ++i) {
      const Seen seen = SeenIn(work.tiles[i], first, count);
      if (p * nr >= seen.end || (p + 1) * nr <= seen.begin) continue;
      ScoreTile(work.query + i * in.head_dim * kRows, key, in.head_dim,
                work.scores + (i - from) * kRows * kScoreStride + p * nr);
    }
  }
  for (int64_t i = from; i < to; ++i) {
    const RowTile& tile = work.tiles[i];
    const Seen seen = SeenIn(tile, first, count);
    if (seen.begin >= seen.end) continue;
    const int64_t c0 = seen.begin / nr * nr;
    const int64_t c1 = RoundUp(seen.end, nr);
    for (int64_t r = 0; r < kRows; ++r) {
      const int64_t at = (i - from) * kRows + r;
      float* const s = work.scores + at * kScoreStride;
      const int64_t t = tile.row + r;
      work.alpha[at] = 1;
      int64_t lo = 0;
      int64_t hi = 0;
      if (r < tile.rows) {
        const Rows rows = RowsOf(in, t);
        lo = HWY_MAX(rows.begin - first, int64_t{0});
        hi = HWY_MIN(rows.end - first, count);
      }
      if (lo >= hi) {
        FillZero(s + c0, c1 - c0);
        continue;
      }
      if (AdjustsScores(in)) {
        AdjustScores(in, tile.head, t, first + c0, HWY_MIN(c1, count) - c0,
                     s + c0);
      }
      const int64_t row = tile.head * in.query_rows + t;
      work.alpha[at] =
          SoftmaxRow(c0, c1, lo, hi, s, state.max[row], state.sum[row]);
    }
  }
  for (int64_t p = 0; p < work.out_panels; ++p) {
    for (int64_t i = from; i < to; ++i) {
      const Seen seen = SeenIn(work.tiles[i], first, count);
      if (seen.begin >= seen.end) continue;
      const int64_t at = (i - from) * kRows;
      ValueTile(work.scores + at * kScoreStride + seen.begin,
                work.value + (p * work.block + seen.begin) * nr,
                seen.end - seen.begin, work.alpha + at,
                work.out + (i * work.out_panels + p) * kRows * nr);
    }
  }
}

HWY_INLINE bool AnySeen(const PackedCall& work, int64_t from, int64_t to,
                        int64_t first, int64_t count) {
  for (int64_t i = from; i < to; ++i) {
    const Seen seen = SeenIn(work.tiles[i], first, count);
    if (seen.begin < seen.end) return true;
  }
  return false;
}

// Copies the outputs from the caller's rows [G*T, Dv] to the panels of the
// tiles (kIn), or back.
template <bool kIn>
void CopyOut(const AttentionSlice& in, const AttentionState& state,
             const PackedCall& work) {
  const int64_t nr = work.panel;
  for (int64_t i = 0; i < work.tile_count; ++i) {
    const RowTile& tile = work.tiles[i];
    for (int64_t p = 0; p < work.out_panels; ++p) {
      const int64_t dims = HWY_MIN(nr, in.value_dim - p * nr);
      for (int64_t r = 0; r < kRows; ++r) {
        float* const panel =
            work.out + ((i * work.out_panels + p) * kRows + r) * nr;
        if (r >= tile.rows) {
          if (kIn) FillZero(panel, nr);
          continue;
        }
        const int64_t at = tile.head * in.query_rows + tile.row + r;
        float* const row = state.out + at * in.value_dim + p * nr;
        if (kIn && state.max[at] == -std::numeric_limits<float>::infinity()) {
          FillZero(panel, nr);  // nothing is accumulated yet
        } else if (kIn) {
          CopyFloats(row, dims, panel);
          FillZero(panel + dims, nr - dims);
        } else {
          CopyFloats(panel, dims, row);
        }
      }
    }
  }
}

PackedCall TakePackedCall(const AttentionSlice& in, Scratch& scratch) {
  PackedCall w{};
  w.panel = PanelWidth();
  w.block = HWY_MIN(kKeyBlock, RoundUp(in.key_rows, w.panel));
  w.out_panels = RoundUp(in.value_dim, w.panel) / w.panel;
  const auto size = [](int64_t x) { return static_cast<size_t>(x); };
  const size_t tiles = size(in.heads * (RoundUp(in.query_rows, kRows) / kRows));
  const size_t query = tiles * size(in.head_dim * kRows);
  const size_t out = tiles * size(w.out_panels * kRows * w.panel);
  const size_t key = size(w.block * in.head_dim);
  const size_t value = size(w.out_panels * w.block * w.panel);
  const size_t rows = HWY_MIN(tiles, size(kTilesPerBlock)) * size(kRows);
  const size_t scores = rows * size(kScoreStride);
  const size_t lines = size(4 * in.head_dim);
  scratch.Reset(Scratch::Bytes<RowTile>(tiles) + Scratch::Bytes<float>(query) +
                Scratch::Bytes<float>(out) + Scratch::Bytes<float>(key) +
                Scratch::Bytes<float>(value) + Scratch::Bytes<float>(rows) +
                Scratch::Bytes<float>(scores) + Scratch::Bytes<float>(lines));
  w.tiles = scratch.Take<RowTile>(tiles);
  w.query = scratch.Take<float>(query);
  w.out = scratch.Take<float>(out);
  w.key = scratch.Take<float>(key);
  w.value = scratch.Take<float>(value);
  w.scores = scratch.Take<float>(scores);
  w.alpha = scratch.Take<float>(rows);
  w.lines = scratch.Take<float>(lines);
  return w;
}

void Prefill(const AttentionSlice& in, const AttentionState& state,
             Scratch& scratch) {
  PackedCall work = TakePackedCall(in, scratch);
  MakeTiles(in, work);
  WithElement(in.query_dtype,
              [&](auto element) { PackQuery<decltype(element)>(in, work); });
  CopyOut<true>(in, state, work);
  for (int64_t first = 0; first < in.key_rows; first += kKeyBlock) {
    const int64_t count = HWY_MIN(kKeyBlock, in.key_rows - first);
    bool packed = false;
    for (int64_t i = 0; i < work.tile_count; i += kTilesPerBlock) {
      const int64_t to = HWY_MIN(i + kTilesPerBlock, work.tile_count);
      if (!AnySeen(work, i, to, first, count)) continue;
      if (!packed) {
        WithElement(in.kv_dtype, [&](auto element) {
          PackKeys<decltype(element)>(in, first, count, work);
          PackValues<decltype(element)>(in, first, count, work);
        });
        packed = true;
      }
      AttendBlock(in, state, first, count, i, to, work);
    }
  }
  CopyOut<false>(in, state, work);
}

}  // namespace shardc::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shardc::exec {

SIMD_EXPORT(Prefill);

void PrefillAttention(const AttentionSlice& slice, const AttentionState& state,
                      Scratch& scratch) {
  if (MultipliesBf16(slice)) return PrefillBf16(slice, state, scratch);
  SIMD_DISPATCH(Prefill)(slice, state, scratch);
}

}  // namespace shardc::exec
#endif  // HWY_ONCE
