// Packs the operands of the prefill kernel: copies rows of the query, keys and
// values to the order in which the matmuls read them. Highway compiles
// this file once for each instruction set (target).
//
// Packing spends its time waiting for memory, so it alternates with products:
// four rows are packed before each tile of scores is computed. The rows of the
// query tiles that are used next are packed first, then rows of the next block
// of keys. Each row is prefetched eight rows before it is packed.
//
// For example, a block of 256 keys needs 128 packing steps of four rows, 64 for
// keys and 64 for values. If 10 query tiles have 8 tiles of scores each, 80 of
// these steps alternate with products. The other 48 steps run before the block
// is used.
#if defined(SHARDC_EXEC_KERNELS_PREFILL_PACK_SIMD_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef SHARDC_EXEC_KERNELS_PREFILL_PACK_SIMD_INL_H_
#undef SHARDC_EXEC_KERNELS_PREFILL_PACK_SIMD_INL_H_
#else
#define SHARDC_EXEC_KERNELS_PREFILL_PACK_SIMD_INL_H_
#endif

#include "exec/kernels/prefill_tiles_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shardc::exec::HWY_NAMESPACE {

constexpr int64_t kTilesPerBlock = 128 / kRows;
// The distance between rows of scores. It is not a power of two, so that rows
// spread over the sets of the cache.
constexpr int64_t kScoreStride = kKeyBlock + 32;

// kPackRows rows are packed together. Rows are prefetched kAhead rows before
// they are packed.
constexpr int64_t kPackRows = 4;
constexpr int64_t kAhead = 8;

struct RowTile {
  int64_t head;  // index of the query head
  int64_t row;   // index of the tile's first query row
  int64_t rows;  // number of rows, at most kRows
  // Keys [begin, end): the first to the last that the rows attend to.
  int64_t begin, end;
  // Output rows, out_stride floats apart, in the caller's state or in a copy.
  float* out;
};

// A block of `count` keys from key `first` on.
struct PackedBlock {
  int64_t first, count;
  // How many keys and how many values of the block are packed so far.
  int64_t packed_keys, packed_values;
  float* key;    // [panels][D][NR keys]
  float* value;  // [out_panels][block][NR dims]
};

// The packed operands and the running results of one call of PrefillAttention.
struct PackedCall {
  // NR: the number of keys, or of dims of the values, in one panel. A panel is
  // the part of a packed operand that the innermost loop reads at once.
  int64_t panel;
  int64_t block;       // number of keys of a packed block
  int64_t out_panels;  // number of panels for Dv dims
  int64_t out_stride;  // Dv, rounded up to a multiple of NR
  RowTile* tiles;
  int64_t tile_count;
  PackedBlock now, next;
  float* query;  // [tiles][D][MR], with MR = kRows
  // The next rows to pack: index of the tile, and row within it.
  int64_t query_tile;
  int64_t query_row;
  int64_t query_end;  // PackQuery stops before this tile
  // [copied tiles][MR][out_stride]: the outputs of tiles that are not
  // accumulated directly in the caller's state.
  float* out;
  float* scores;  // [kTilesPerBlock*MR][kScoreStride]
  // [kTilesPerBlock][MR]: the factor by which the sums of a row's earlier keys
  // are multiplied, because the row's maximum has changed.
  float* alpha;
  float* lines;  // [kPackRows][D]: rows before they are transposed
};

// Sets `block` to keys [first, end), but at most kKeyBlock keys. None of the
// block's keys is packed yet.
HWY_INLINE void BeginBlock(int64_t first, int64_t end, PackedBlock& block) {
  block.first = first;
  block.count = HWY_MAX(HWY_MIN(kKeyBlock, end - first), int64_t{0});
  block.packed_keys = 0;
  block.packed_values = 0;
}

// Rows that are packed soon. Of these, `rows` rows are not prefetched yet.
struct RowsAhead {
  const char* row;
  int64_t stride, bytes, rows;
};
HWY_INLINE void PrefetchNext(RowsAhead& ahead) {
  if (ahead.rows == 0) return;
  PrefetchRow(ahead.row, ahead.bytes);
  ahead.row += ahead.stride;
  --ahead.rows;
}

// Returns the kPackRows rows that begin at `row`, or only `left` rows if `left`
// is smaller.
template <class T>
HWY_INLINE RowsAhead Ahead(const T* row, int64_t stride, int64_t dim,
                           int64_t left) {
  const auto size = static_cast<int64_t>(sizeof(T));
  return {reinterpret_cast<const char*>(row), stride * size, dim * size,
          HWY_MAX(HWY_MIN(kPackRows, left), int64_t{0})};
}

// Packs rows r to r + 3 of a query tile.
template <class E>
void PackQueryRows(const AttentionSlice& in, const RowTile& tile, int64_t r,
                   float* lines, float* to) {
  const auto* const query = static_cast<const typename E::T*>(in.query);
  const int64_t d = in.head_dim;
  for (int64_t j = 0; j < kPackRows; ++j) {
    float* const line = lines + j * d;
    if (r + j >= tile.rows) {
      FillZero(line, d);
      continue;
    }
    const auto* const row = query + tile.head * in.query_head_stride +
                            (tile.row + r + j) * in.query_row_stride;
    ConvertRow<E>(row, d, in.scale, line);
  }
  TransposeFour(lines, d, d, to + r, kRows);
}

// Packs rows k to k + 3 of a block's keys. Rows from `count` on become zeros.
template <class E>
void PackKeyRows(const AttentionSlice& in, const PackedBlock& block, int64_t k,
                 int64_t panel, float* lines) {
  const auto* const key = static_cast<const typename E::T*>(in.key);
  const int64_t d = in.head_dim;
  for (int64_t j = 0; j < kPackRows; ++j) {
    float* const line = lines + j * d;
    const int64_t row = block.first + k + j;
    if (k + j >= block.count) {
      FillZero(line, d);
      continue;
    }
    ConvertRow<E>(key + row * in.key_row_stride, d,
                  RowScale(in.key_scale, in.scale_stride, row), line);
  }
  TransposeFour(lines, d, d, block.key + k / panel * d * panel + k % panel,
                panel);
}

// Packs row k of a block's values.
template <class E>
void PackValueRow(const AttentionSlice& in, const PackedCall& work,
                  const PackedBlock& block, int64_t k) {
  const int64_t nr = work.panel;
  const int64_t row = block.first + k;
  const float scale = RowScale(in.value_scale, in.scale_stride, row);
  const auto* const value =
      static_cast<const typename E::T*>(in.value) + row * in.value_row_stride;
  for (int64_t p = 0; p < work.out_panels; ++p) {
    float* const to = block.value + (p * work.block + k) * nr;
    const int64_t dims = HWY_MIN(nr, in.value_dim - p * nr);
    ConvertRow<E>(value + p * nr, dims, scale, to);
    FillZero(to + dims, nr - dims);
  }
}

// Packs the next rows of the query and sets `ahead` to the rows to prefetch.
// Returns false if all tiles before query_end are packed.
HWY_INLINE bool PackQuery(const AttentionSlice& in, PackedCall& work,
                          RowsAhead& ahead) {
  if (work.query_tile >= work.query_end) return false;
  const RowTile& tile = work.tiles[work.query_tile];
  const int64_t r = work.query_row;
  WithElement(in.query_dtype, [&](auto element) {
    using E = decltype(element);
    PackQueryRows<E>(in, tile, r, work.lines,
                     work.query + work.query_tile * in.head_dim * kRows);
    const int64_t next = tile.row + r + kAhead;
    ahead =
        Ahead(static_cast<const typename E::T*>(in.query) +
                  tile.head * in.query_head_stride + next * in.query_row_stride,
              in.query_row_stride, in.head_dim, in.query_rows - next);
  });
  work.query_row += kPackRows;
  if (work.query_row >= kRows) {
    work.query_row = 0;
    ++work.query_tile;
  }
  return true;
}

// Packs the next key rows of the next block and sets `ahead` to the rows to
// prefetch. Returns false if all keys of the block are packed.
HWY_INLINE bool PackKeys(const AttentionSlice& in, PackedCall& work,
                         RowsAhead& ahead) {
  PackedBlock& block = work.next;
  const int64_t k = block.packed_keys;
  if (k >= RoundUp(block.count, work.panel)) return false;
  WithElement(in.kv_dtype, [&](auto element) {
    using E = decltype(element);
    PackKeyRows<E>(in, block, k, work.panel, work.lines);
    const int64_t next = block.first + k + kAhead;
    ahead = Ahead(
        static_cast<const typename E::T*>(in.key) + next * in.key_row_stride,
        in.key_row_stride, in.head_dim, in.key_rows - next);
  });
  block.packed_keys += kPackRows;
  return true;
}

// Packs the next value rows of the next block and sets `ahead` to the rows to
// prefetch. Returns false if all values of the block are packed.
HWY_INLINE bool PackValues(const AttentionSlice& in, PackedCall& work,
                           RowsAhead& ahead) {
  PackedBlock& block = work.next;
  const int64_t begin = block.packed_values;
  if (begin >= block.count) return false;
  const int64_t end = HWY_MIN(begin + kPackRows, block.count);
  WithElement(in.kv_dtype, [&](auto element) {
    using E = decltype(element);
    for (int64_t k = begin; k < end; ++k) PackValueRow<E>(in, work, block, k);
    const int64_t next = block.first + begin + kAhead;
    ahead = Ahead(static_cast<const typename E::T*>(in.value) +
                      next * in.value_row_stride,
                  in.value_row_stride, in.value_dim, in.key_rows - next);
  });
  block.packed_values = end;
  return true;
}

// Packs a few rows that are needed later, and returns the rows to prefetch.
HWY_INLINE RowsAhead PackSome(const AttentionSlice& in, PackedCall& work) {
  RowsAhead ahead{};
  if (!PackQuery(in, work, ahead) && !PackKeys(in, work, ahead)) {
    PackValues(in, work, ahead);
  }
  return ahead;
}

// PackAllQuery packs the remaining rows of the query tiles before query_end.
// PackWholeBlock packs the remaining rows of the next block.
HWY_INLINE void PackAllQuery(const AttentionSlice& in, PackedCall& work) {
  RowsAhead ahead{};
  while (PackQuery(in, work, ahead)) {
    while (ahead.rows > 0) PrefetchNext(ahead);
  }
}
HWY_INLINE void PackWholeBlock(const AttentionSlice& in, PackedCall& work) {
  RowsAhead ahead{};
  while (PackKeys(in, work, ahead) || PackValues(in, work, ahead)) {
    while (ahead.rows > 0) PrefetchNext(ahead);
  }
}

}  // namespace shardc::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SHARDC_EXEC_KERNELS_PREFILL_PACK_SIMD_INL_H_
