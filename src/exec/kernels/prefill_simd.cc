// Computes attention of many query rows in blocks of kKeyBlock keys.
//
// Each block of keys is packed once. K is transposed into panels [D][NR], and V
// is copied to panels [block][NR]. NR is kVectors vectors wide, so that one
// panel stays in the first-level cache while all tiles of query rows use it.
// The query is packed once, in tiles [D][MR]. While the products of a block are
// computed, the next block is packed (PackKeys, PackValues).
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

#include "exec/kernels/attention_simd-inl.h"
#include "floats/targets_simd.h"

HWY_BEFORE_NAMESPACE();
namespace shardc::exec::HWY_NAMESPACE {

// Computes products of tiles for the prefill kernel. The sums of a tile are
// kRows rows of kVectors vectors. They stay in registers while one panel of
// packed numbers is read. TransposeFour packs such panels.

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

// Packs the operands of the prefill kernel: copies rows of the query, keys and
// values to the order in which the matmuls read them.
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

// Computes the softmax of a tile of scores for the prefill kernel.
//
// A weight e^(x - max) is computed as 2^((x - max) log2(e)). The product is
// rounded, so the relative error of a weight is about |x - max| 2^-24. It is
// large only for small weights. The absolute error is below 2^-23 times the
// largest weight.
//
// The rows of a tile are processed together: first the maxima of all rows, then
// their weights. The steps of one row depend on each other, but the processor
// can overlap the steps of different rows.

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

// Computes attention of blocks of tiles.

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

void Adjust(const AttentionSlice& in, int64_t g, int64_t t, int64_t first,
            int64_t count, float* scores) {
  AdjustScores(in, g, t, first, count, scores);
}

}  // namespace shardc::exec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shardc::exec {

SIMD_EXPORT(Prefill);
SIMD_EXPORT(Adjust);

// Code that is compiled only once, such as the kernel of bfloat16 products,
// calls the AdjustScores of the instruction set that is selected at run time.
void AdjustRow(const AttentionSlice& slice, int64_t g, int64_t t, int64_t first,
               int64_t count, float* scores) {
  SIMD_DISPATCH(Adjust)(slice, g, t, first, count, scores);
}

void PrefillAttention(const AttentionSlice& slice, const AttentionState& state,
                      Scratch& scratch) {
  if (MultipliesBf16(slice)) return PrefillBf16(slice, state, scratch);
  SIMD_DISPATCH(Prefill)(slice, state, scratch);
}

}  // namespace shardc::exec
#endif  // HWY_ONCE
