// Computes attention of many query rows in blocks of kKeyBlock keys.
//
// Each block of keys is packed once. K is transposed into panels [D][NR], and V
// is copied to panels [block][NR]. NR is kVectors vectors wide, so that one
// panel stays in the first-level cache while all tiles of query rows use it.
// The query is packed once, in tiles [D][MR]. While the products of a block are
// computed, the next block is packed (prefill_pack_simd-inl.h).
//
// The products with K and with V are computed by the same loop over tiles of MR
// x NR sums in registers. Each sum is one chain of fused multiply-adds in
// ascending order. A skipped key adds nothing and a masked key adds zero, so a
// row does not depend on the other rows of its tile.
//
// A tile of MR rows x NR keys is skipped if all its keys are before the first
// key, or after the last key, that its rows attend to. With a causal mask, a
// row therefore computes only about (NR + MR)/2 unneeded scores, and not half a
// block. That is 4% for T = 1024 rows with 12 x 32 tiles.
//
// tests/exec/kernels/attention_kernels_test.cc compares the results with loops.

#include <limits>

#include "exec/kernels/kernels.h"
#include "exec/kernels/prefill_bf16.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/kernels/prefill_simd.cc"
#include <hwy/cache_control.h>
// foreach_target.h must precede highway.h. It includes this file once more for
// each instruction set.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "exec/kernels/prefill_pack_simd-inl.h"
#include "exec/kernels/prefill_softmax_simd-inl.h"
#include "floats/targets_simd.h"

HWY_BEFORE_NAMESPACE();
namespace shardc::exec::HWY_NAMESPACE {

HWY_INLINE void ScoreTile(const float* query, const float* key,
                          int64_t head_dim, RowsAhead ahead, float* scores) {
  const DF df;
  const auto n = static_cast<int64_t>(hn::Lanes(df));
  MultiplyTile<kRows, 1>(
      query, key, head_dim, (head_dim + kPackRows - 1) / kPackRows,
      [&]() HWY_ATTR { PrefetchNext(ahead); },
      [&](int64_t r, int64_t v, VF sum)
          HWY_ATTR { hn::Store(sum, df, scores + r * kScoreStride + v * n); });
}

HWY_INLINE void ValueTile(const float* weights, const float* value,
                          int64_t count, const float* alpha, float* out,
                          int64_t out_stride) {
  const DF df;
  const auto n = static_cast<int64_t>(hn::Lanes(df));
  for (int64_t r = 0; r < kRows; ++r) {
    PrefetchRow(out + r * out_stride, kVectors * n);
  }
  MultiplyTile<1, kScoreStride>(
      weights, value, count, count, []() HWY_ATTR {},
      [&](int64_t r, int64_t v, VF sum) HWY_ATTR {
        float* const o = out + r * out_stride + v * n;
        hn::StoreU(hn::MulAdd(hn::Set(df, alpha[r]), hn::LoadU(df, o), sum), df,
                   o);
      });
}

// Returns true if the outputs of a tile are accumulated directly in the
// caller's rows. This requires that the tile has kRows rows and that no dim
// needs padding. The outputs of other tiles are accumulated in a copy.
HWY_INLINE bool InPlace(const AttentionSlice& in, const PackedCall& work,
                        int64_t rows) {
  return rows == kRows && work.out_stride == in.value_dim;
}

// Fills the list of tiles. Returns the interval of keys that begins with the
// first and ends with the last key that any row attends to.
Rows MakeTiles(const AttentionSlice& in, const AttentionState& state,
               PackedCall& work) {
  RowTile* tile = work.tiles;
  float* copy = work.out;
  Rows all = {in.key_rows, 0};
  for (int64_t g = 0; g < in.heads; ++g) {
    for (int64_t t = 0; t < in.query_rows; t += kRows) {
      const int64_t rows = HWY_MIN(kRows, in.query_rows - t);
      *tile = {g, t, rows, in.key_rows, 0, nullptr};
      if (InPlace(in, work, rows)) {
        tile->out = state.out + (g * in.query_rows + t) * in.value_dim;
      } else {
        tile->out = copy;
        copy += kRows * work.out_stride;
      }
      for (int64_t r = t; r < t + rows; ++r) {
        const Rows seen = RowsOf(in, r);
        if (seen.begin >= seen.end) continue;
        tile->begin = HWY_MIN(tile->begin, seen.begin);
        tile->end = HWY_MAX(tile->end, seen.end);
      }
      all.begin = HWY_MIN(all.begin, tile->begin);
      all.end = HWY_MAX(all.end, tile->end);
      ++tile;
    }
  }
  work.tile_count = tile - work.tiles;
  return all;
}

// The keys of a block from the first to the last that rows of the tile attend
// to, as indices [begin, end) in the block.
struct Seen {
  int64_t begin, end;
};
HWY_INLINE Seen SeenIn(const RowTile& tile, int64_t first, int64_t count) {
  return {HWY_MAX(tile.begin - first, int64_t{0}),
          HWY_MIN(tile.end - first, count)};
}

// Replaces the scores of a tile by weights, and sets `alpha` to the factor by
// which each row's earlier sums must be multiplied. The block has `count`
// packed keys from `first` on.
void WeighTile(const AttentionSlice& in, const AttentionState& state,
               const RowTile& tile, int64_t first, int64_t count, int64_t nr,
               float* scores, float* alpha) {
  const Seen any = SeenIn(tile, first, count);
  const int64_t c0 = any.begin / nr * nr;
  const int64_t c1 = RoundUp(any.end, nr);
  const float lowest = -std::numeric_limits<float>::infinity();
  const int64_t at = tile.head * in.query_rows + tile.row;
  TileSoftmax softmax;
  for (int64_t r = 0; r < RoundUp(kRows, int64_t(hn::Lanes(DF()))); ++r) {
    softmax.before[r] = r < tile.rows ? state.max[at + r] : lowest;
    softmax.now[r] = lowest;
  }
  for (int64_t r = 0; r < tile.rows; ++r) {
    float* const s = scores + r * kScoreStride;
    const Rows rows = RowsOf(in, tile.row + r);
    if (AdjustsScores(in)) {
      AdjustScores(in, tile.head, tile.row + r, first + c0,
                   HWY_MIN(c1, count) - c0, s + c0);
    }
    softmax.now[r] = MaskRow(c0, c1, rows.begin - first,
                             HWY_MIN(rows.end - first, count), s);
  }
  ShiftRows(softmax);
  for (int64_t r = 0; r < kRows; ++r) {
    float* const s = scores + r * kScoreStride;
    alpha[r] = softmax.alpha[r];
    if (r >= tile.rows || softmax.now[r] == lowest) {
      FillZero(s + c0, c1 - c0);
      continue;
    }
    const float sum = WeighRow(c0, c1, softmax.shift[r], s);
    state.max[at + r] = softmax.now[r];
    state.sum[at + r] = state.sum[at + r] * alpha[r] + sum;
  }
}

// Computes the attention of the query rows of tiles [from, to) over the packed
// block, whose `count` keys and values begin at key `first`. Accumulates the
// result in the outputs of the tiles.
void AttendBlock(const AttentionSlice& in, const AttentionState& state,
                 int64_t first, int64_t count, int64_t from, int64_t to,
                 PackedCall& work) {
  const int64_t nr = work.panel;
  for (int64_t p = 0; p * nr < count; ++p) {
    const float* const key = work.now.key + p * in.head_dim * nr;
    for (int64_t i = from; i < to; ++i) {
      const Seen seen = SeenIn(work.tiles[i], first, count);
      if (p * nr >= seen.end || (p + 1) * nr <= seen.begin) continue;
      const RowsAhead ahead = PackSome(in, work);
      ScoreTile(work.query + i * in.head_dim * kRows, key, in.head_dim, ahead,
                work.scores + (i - from) * kRows * kScoreStride + p * nr);
    }
  }
  for (int64_t i = from; i < to; ++i) {
    const Seen seen = SeenIn(work.tiles[i], first, count);
    if (seen.begin >= seen.end) continue;
    WeighTile(in, state, work.tiles[i], first, count, nr,
              work.scores + (i - from) * kRows * kScoreStride,
              work.alpha + (i - from) * kRows);
  }
  for (int64_t p = 0; p < work.out_panels; ++p) {
    for (int64_t i = from; i < to; ++i) {
      const Seen seen = SeenIn(work.tiles[i], first, count);
      if (seen.begin >= seen.end) continue;
      const int64_t at = (i - from) * kRows;
      ValueTile(work.scores + at * kScoreStride + seen.begin,
                work.now.value + (p * work.block + seen.begin) * nr,
                seen.end - seen.begin, work.alpha + at,
                work.tiles[i].out + p * nr, work.out_stride);
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

// For tiles that are not accumulated in place: copies the outputs from the
// caller's rows [G*T, Dv] to the copy (kIn), or back.
template <bool kIn>
void CopyOut(const AttentionSlice& in, const AttentionState& state,
             const PackedCall& work) {
  for (int64_t i = 0; i < work.tile_count; ++i) {
    const RowTile& tile = work.tiles[i];
    if (InPlace(in, work, tile.rows)) continue;
    for (int64_t r = 0; r < kRows; ++r) {
      float* const copy = tile.out + r * work.out_stride;
      if (kIn) FillZero(copy, work.out_stride);
      if (r >= tile.rows) continue;
      float* const row =
          state.out + (tile.head * in.query_rows + tile.row + r) * in.value_dim;
      CopyFloats(kIn ? row : copy, in.value_dim, kIn ? copy : row);
    }
  }
}

PackedCall TakePackedCall(const AttentionSlice& in, Scratch& scratch) {
  PackedCall w{};
  w.panel = PanelWidth();
  w.block = HWY_MIN(kKeyBlock, RoundUp(in.key_rows, w.panel));
  w.out_panels = RoundUp(in.value_dim, w.panel) / w.panel;
  w.out_stride = w.out_panels * w.panel;
  const auto size = [](int64_t x) { return static_cast<size_t>(x); };
  const size_t tiles = size(in.heads * (RoundUp(in.query_rows, kRows) / kRows));
  const size_t query = tiles * size(in.head_dim * kRows);
  const int64_t copied =
      InPlace(in, w, kRows) ? in.heads : static_cast<int64_t>(tiles);
  const size_t out = size(copied * kRows * w.out_stride);
  const size_t key = size(w.block * in.head_dim);
  const size_t value = size(w.out_panels * w.block * w.panel);
  const size_t rows = HWY_MIN(tiles, size(kTilesPerBlock)) * size(kRows);
  const size_t scores = rows * size(kScoreStride);
  const size_t lines = size(4 * in.head_dim);
  scratch.Reset(Scratch::Bytes<RowTile>(tiles) + Scratch::Bytes<float>(query) +
                Scratch::Bytes<float>(out) + 2 * Scratch::Bytes<float>(key) +
                2 * Scratch::Bytes<float>(value) + Scratch::Bytes<float>(rows) +
                Scratch::Bytes<float>(scores) + Scratch::Bytes<float>(lines));
  w.tiles = scratch.Take<RowTile>(tiles);
  w.query = scratch.Take<float>(query);
  w.out = scratch.Take<float>(out);
  for (PackedBlock* const block : {&w.now, &w.next}) {
    block->key = scratch.Take<float>(key);
    block->value = scratch.Take<float>(value);
  }
  w.scores = scratch.Take<float>(scores);
  w.alpha = scratch.Take<float>(rows);
  w.lines = scratch.Take<float>(lines);
  return w;
}

void Prefill(const AttentionSlice& in, const AttentionState& state,
             Scratch& scratch) {
  PackedCall work = TakePackedCall(in, scratch);
  const Rows seen = MakeTiles(in, state, work);
  CopyOut<true>(in, state, work);
  BeginBlock(seen.begin / kKeyBlock * kKeyBlock, seen.end, work.next);
  while (work.next.first < seen.end) {
    const int64_t first = work.next.first;
    const int64_t count = work.next.count;
    PackWholeBlock(in, work);
    const PackedBlock now = work.next;
    work.next = work.now;
    work.now = now;
    BeginBlock(first + kKeyBlock, seen.end, work.next);
    for (int64_t i = 0; i < work.tile_count; i += kTilesPerBlock) {
      const int64_t to = HWY_MIN(i + kTilesPerBlock, work.tile_count);
      if (!AnySeen(work, i, to, first, count)) continue;
      work.query_end = HWY_MAX(work.query_end, to);
      PackAllQuery(in, work);
      work.query_end = HWY_MIN(to + kTilesPerBlock, work.tile_count);
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
