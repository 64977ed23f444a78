// Computes attention of many query rows in blocks, as prefill_simd.cc does, but
// multiplies bfloat16 numbers (bf16_tiles.h) instead of float32. It reads the
// same blocks of kKeyBlock keys in the same order. Each block is packed once,
// and all tiles of 32 query rows use it.
//
// Error of the scores: query, key and value are exact. A score is a float32 sum
// of D exact products. Its error is at most that of the float32 kernel, (D + 2)
// 2^-24 |scale| sum |q_d k_d|.
//
// Error of the outputs: only the weights are less exact than in the float32
// kernel. Before a weight p_s is multiplied by its value v_s, it is rounded to
// bfloat16, with a relative error of at most 2^-8. The sum of the weights stays
// in float32. An output therefore differs from the float32 kernel's output by
// at most
//
//   2^-8 sum_s p_s |v_s| <= 2^-8 max |v|    where the weights p add up to 1.
//
// Rounding an output to bfloat16 has a similar error, 2^-8 |out|. The
// log-sum-exp has only the error of float32. Runs on the simulated mesh never
// use this code, because their buffers are float32.
//
// A tile of 32 query rows computes the scores of 32 keys at a time, from the
// first key to the last key that any of its rows attends to. Masked keys have
// the weight 0, and adding 0 times a value changes no sum. A row is therefore
// independent of the other rows of its tile.
//
// tests/exec/kernels/attention_kernels_test.cc compares the results with loops.

#include "exec/kernels/prefill_bf16.h"

#include <algorithm>
#include <limits>

#include "exec/kernels/bf16_tiles.h"
#include "floats/bf16_products.h"

namespace shardc::exec {
namespace {

// The row strides are not powers of two, so that rows spread over the sets of
// the cache.
constexpr int64_t kScoreStride = kKeyBlock + 32;
constexpr int64_t kWeightStride = kKeyBlock + 32;
// A call of ScoreKeys computes a tile's scores for 32 keys, so a block of 256
// keys needs 8 calls. AttendTile makes these calls for the next tile while it
// computes the weights of the 32 rows of its own tile: one call for every
// kRowsPerPanel = 4 rows.
constexpr int64_t kRowsPerPanel = kBlockRows / (kKeyBlock / kBlockColumns);
constexpr int64_t kKeySteps = kKeyBlock / kTileDepth;

int64_t RoundUp(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

struct Keys {
  int64_t begin = 0, end = 0;
};

struct QueryTile {
  int64_t head = 0;  // index of the query head
  int64_t row = 0;   // index of the tile's first query row
  int64_t rows = 0;  // number of rows, at most kBlockRows
  // From the first to the last key that any of the tile's rows attends to.
  Keys seen;
  float* out = nullptr;  // [32, out_dim]
};

// The scores of a query tile for keys [c0, c1) of a block. c0 and c1 are
// multiples of 32. The scores of keys [c0, scored) are already computed.
struct TileKeys {
  int64_t tile = 0;
  int64_t c0 = 0, c1 = 0;
  int64_t scored = 0;
  float* scores = nullptr;  // [32][kScoreStride]
};

class Prefill {
 public:
  Prefill(const AttentionSlice& in, const AttentionState& state,
          Scratch& scratch)
      : in_(in),
        state_(state),
        products_(UsedBf16Products()),
        depth_(RoundUp(in.head_dim, kTileDepth) / kTileDepth),
        out_dim_(RoundUp(in.value_dim, kBlockColumns)),
        tile_count_(in.heads *
                    (RoundUp(in.query_rows, kBlockRows) / kBlockRows)) {
    Take(scratch);
  }

  void Run() {
    MakeTiles();
    CopyIn();
    for (int64_t first = 0; first < in_.key_rows; first += kKeyBlock) {
      const int64_t count = std::min(kKeyBlock, in_.key_rows - first);
      TileKeys next = NextTile(0, first, count);
      if (next.tile == tile_count_) continue;
      PackKeys(first, count);
      next.scores = scores_;
      while (ScoreKeys(next)) {
      }
      while (next.tile < tile_count_) {
        TileKeys tile = next;
        next = NextTile(tile.tile + 1, first, count);
        next.scores = tile.scores == scores_
                          ? scores_ + kBlockRows * kScoreStride
                          : scores_;
        AttendTile(tile, first, count, next);
      }
    }
    CopyOut();
  }

 private:
  void Take(Scratch& scratch) {
    const auto size = [](int64_t x) { return static_cast<size_t>(x); };
    const size_t query = size(tile_count_ * kBlockRows * depth_ * kTileDepth);
    const size_t out = size(tile_count_ * kBlockRows * out_dim_);
    const size_t key = size(kKeyBlock * depth_ * kTileDepth);
    const size_t value = size(kKeyBlock * out_dim_);
    const size_t scores = size(2 * kBlockRows * kScoreStride);
    const size_t weights = size(kBlockRows * kWeightStride);
    scratch.Reset(
        Scratch::Bytes<QueryTile>(size(tile_count_)) +
        Scratch::Bytes<float>(out) + Scratch::Bytes<float>(scores) +
        Scratch::Bytes<uint16_t>(query) + Scratch::Bytes<uint16_t>(key) +
        Scratch::Bytes<uint16_t>(value) + Scratch::Bytes<uint16_t>(weights));
    tiles_ = scratch.Take<QueryTile>(size(tile_count_));
    out_ = scratch.Take<float>(out);
    scores_ = scratch.Take<float>(scores);
    query_ = scratch.Take<uint16_t>(query);
    key_ = scratch.Take<uint16_t>(key);
    value_ = scratch.Take<uint16_t>(value);
    weights_ = scratch.Take<uint16_t>(weights);
  }

  Keys Seen(int64_t t) const {
    const int64_t begin = in_.begin == nullptr ? 0 : in_.begin[t];
    const int64_t end = in_.end == nullptr ? in_.key_rows : in_.end[t];
    return {std::max<int64_t>(begin, 0), std::min(end, in_.key_rows)};
  }

  // Returns the part of `keys` that is in the block at `first`, as indices in
  // the block. If the block has none of these keys, begin >= end.
  static Keys Within(Keys keys, int64_t first, int64_t count) {
    return {std::max<int64_t>(keys.begin - first, 0),
            std::min(keys.end - first, count)};
  }

  void MakeTiles() {
    QueryTile* tile = tiles_;
    for (int64_t g = 0; g < in_.heads; ++g) {
      for (int64_t t = 0; t < in_.query_rows; t += kBlockRows) {
        *tile = {
            g, t, std::min(kBlockRows, in_.query_rows - t), {in_.key_rows, 0}};
        for (int64_t r = t; r < t + tile->rows; ++r) {
          const Keys seen = Seen(r);
          if (seen.begin >= seen.end) continue;
          tile->seen.begin = std::min(tile->seen.begin, seen.begin);
          tile->seen.end = std::max(tile->seen.end, seen.end);
        }
        ++tile;
      }
    }
  }

  int64_t QueryElements() const { return kBlockRows * depth_ * kTileDepth; }
  int64_t RowOf(const QueryTile& tile) const {
    return tile.head * in_.query_rows + tile.row;
  }

  // Returns true if the outputs of the tile are accumulated directly in the
  // caller's state. This requires that the tile has 32 rows and that no dim
  // needs padding. The outputs of other tiles are accumulated in a copy.
  bool InPlace(const QueryTile& tile) const {
    return tile.rows == kBlockRows && out_dim_ == in_.value_dim;
  }

  // Packs the query. If the outputs of a tile are accumulated in a copy, also
  // copies the outputs of earlier calls from the caller's state.
  void CopyIn() {
    for (int64_t i = 0; i < tile_count_; ++i) {
      QueryTile& tile = tiles_[i];
      const auto* const query = static_cast<const uint16_t*>(in_.query);
      PackLeft({query + tile.head * in_.query_head_stride +
                    tile.row * in_.query_row_stride,
                in_.query_row_stride, tile.rows, in_.head_dim},
               query_ + i * QueryElements());
      float* const state = state_.out + RowOf(tile) * in_.value_dim;
      if (InPlace(tile)) {
        tile.out = state;
        continue;
      }
      tile.out = out_ + i * kBlockRows * out_dim_;
      std::fill_n(tile.out, kBlockRows * out_dim_, 0.0f);
      for (int64_t r = 0; r < tile.rows; ++r) {
        std::copy_n(state + r * in_.value_dim, in_.value_dim,
                    tile.out + r * out_dim_);
      }
    }
  }

  void CopyOut() const {
    for (int64_t i = 0; i < tile_count_; ++i) {
      const QueryTile& tile = tiles_[i];
      if (InPlace(tile)) continue;
      for (int64_t r = 0; r < tile.rows; ++r) {
        std::copy_n(tile.out + r * out_dim_, in_.value_dim,
                    state_.out + (RowOf(tile) + r) * in_.value_dim);
      }
    }
  }

  void PackKeys(int64_t first, int64_t count) {
    const auto* const key = static_cast<const uint16_t*>(in_.key);
    const auto* const value = static_cast<const uint16_t*>(in_.value);
    PackColumns({key + first * in_.key_row_stride, in_.key_row_stride, count,
                 in_.head_dim},
                key_);
    PackPairs({value + first * in_.value_row_stride, in_.value_row_stride,
               count, in_.value_dim},
              kKeySteps, value_);
  }

  // Returns the first tile, at index `from` or later, that sees keys of the
  // block at `first`. If there is no such tile, the result has tile ==
  // tile_count_.
  TileKeys NextTile(int64_t from, int64_t first, int64_t count) const {
    for (int64_t i = from; i < tile_count_; ++i) {
      const Keys seen = Within(tiles_[i].seen, first, count);
      if (seen.begin >= seen.end) continue;
      const int64_t c0 = seen.begin / kBlockColumns * kBlockColumns;
      return {i, c0, RoundUp(seen.end, kBlockColumns), c0};
    }
    return {.tile = tile_count_};
  }

  // Computes the next 32 x 32 scores of the tile. Returns false if all of the
  // tile's scores are computed.
  bool ScoreKeys(TileKeys& tile) const {
    if (tile.scored == tile.c1) return false;
    products_.Multiply({.left = query_ + tile.tile * QueryElements(),
                        .left_row = kTileDepth,
                        .left_tile = kTileElements,
                        .left_step = 2 * kTileElements,
                        .right = key_ + tile.scored * depth_ * kTileDepth,
                        .right_tile = depth_ * kTileElements,
                        .steps = depth_,
                        .rows = tiles_[tile.tile].rows,
                        .sums = tile.scores + tile.scored,
                        .sums_row = kScoreStride});
    tile.scored += kBlockColumns;
    return true;
  }

  // Computes the attention of a tile of query rows over the block of keys at
  // `first`, and accumulates it in the tile's outputs. The scores of the tile
  // are already computed. Alternates between computing the weights of
  // kRowsPerPanel rows of this tile and computing 32 x 32 scores of the tile
  // `next`, because the processor can multiply tiles while it computes weights.
  void AttendTile(const TileKeys& keys, int64_t first, int64_t count,
                  TileKeys& next) {
    const QueryTile& tile = tiles_[keys.tile];
    const int64_t c0 = keys.c0, c1 = keys.c1;
    float* const out = tile.out;
    for (int64_t r = 0; r < tile.rows; ++r) {
      if (r % kRowsPerPanel == 0) ScoreKeys(next);
      const float alpha = Weigh(tile, keys.scores + r * kScoreStride, r, first,
                                count, {c0, c1});
      if (alpha != 1) ScaleFloats(alpha, out_dim_, out + r * out_dim_);
    }
    while (ScoreKeys(next)) {
    }
    for (int64_t d = 0; d < out_dim_; d += kBlockColumns) {
      products_.Multiply(
          {.left = weights_ + c0,
           .left_row = kWeightStride,
           .left_tile = kTileRows * kWeightStride,
           .left_step = kTileDepth,
           .right =
               value_ + (d / 16 * kKeySteps + c0 / kTileDepth) * kTileElements,
           .right_tile = kKeySteps * kTileElements,
           .steps = (c1 - c0) / kTileDepth,
           .adds = true,
           .sums = out + d,
           .sums_row = out_dim_});
    }
  }

  // Computes the weights of row `r` of the tile from the row's scores, for the
  // keys at indices [written.begin, written.end) of the block. Masked keys get
  // the weight 0. Returns the factor by which the caller must multiply the
  // output accumulated before.
  float Weigh(const QueryTile& tile, float* scores, int64_t r, int64_t first,
              int64_t count, Keys written) {
    Keys seen = Within(Seen(tile.row + r), first, count);
    if (seen.begin >= seen.end) seen = {written.begin, written.begin};
    const bool adjusts = in_.soft_cap != 0 || in_.bias != nullptr ||
                         in_.mask != nullptr || !(in_.scale > 0);
    if (adjusts) {
      const int64_t end = std::min(written.end, count);
      for (int64_t c = written.begin; c < end; ++c) scores[c] *= in_.scale;
      AdjustRow(in_, tile.head, tile.row + r, first + written.begin,
                end - written.begin, scores + written.begin);
    }
    const int64_t at = RowOf(tile) + r;
    return RoundWeights({.scores = scores,
                         .scale = adjusts ? 1 : in_.scale,
                         .c0 = written.begin,
                         .c1 = written.end,
                         .lo = seen.begin,
                         .hi = seen.end,
                         .weights = weights_ + r * kWeightStride,
                         .max = state_.max + at,
                         .sum = state_.sum + at});
  }

  const AttentionSlice& in_;
  const AttentionState& state_;
  BlockProducts products_;
  int64_t depth_;    // D / 32, rounded up
  int64_t out_dim_;  // Dv rounded up to a multiple of 32
  int64_t tile_count_;
  QueryTile* tiles_ = nullptr;
  uint16_t* query_ = nullptr;    // [tiles][depth][2] left tiles
  float* out_ = nullptr;         // [tiles][32][out_dim]
  uint16_t* key_ = nullptr;      // [kKeyBlock / 16][depth] right tiles
  uint16_t* value_ = nullptr;    // [out_dim / 16][kKeySteps] right tiles
  float* scores_ = nullptr;      // [2 query tiles][32][kScoreStride]
  uint16_t* weights_ = nullptr;  // [32][kWeightStride]
};

}  // namespace

bool MultipliesBf16(const AttentionSlice& slice) {
  return slice.query_dtype == Dtype::kBF16 && slice.kv_dtype == Dtype::kBF16 &&
         UsedBf16Products() != Bf16Products::kNone;
}

void PrefillBf16(const AttentionSlice& slice, const AttentionState& state,
                 Scratch& scratch) {
  Prefill(slice, state, scratch).Run();
}

}  // namespace shardc::exec
