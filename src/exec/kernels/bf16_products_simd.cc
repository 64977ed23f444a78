// Implements BlockProducts of bf16_tiles.h, which multiplies bfloat16 matrices,
// with the intrinsics of x86-64. Highway cannot be used, because it has no AMX.
//
// AMX multiplies whole tiles. Without AMX, the vector instruction VDPBF16PS
// computes 32 products of bfloat16 numbers, whose sums are in float32. On AMD's
// Zen 4, a 512-bit VDPBF16PS takes as long as a fused multiply-add of 16
// float32 products, so bfloat16 products take half the time. On an Intel Xeon,
// VDPBF16PS takes 1.5 times as long as float32 products, so only AMX is used
// there.
//
// tests/exec/kernels/attention_kernels_test.cc compares the results with loops.
#include "exec/kernels/bf16_tiles.h"

#if defined(__x86_64__)

#include <cstring>

#include "exec/kernels/intrinsics_simd-inl.h"

HWY_PUSH_ATTRIBUTES("avx512f,amx-tile,amx-bf16")

namespace shardc::exec {
namespace {

// A compiler barrier: GCC's AMX intrinsics do not declare that they read and
// write memory.
inline void MemoryBarrier() { asm volatile("" ::: "memory"); }

// Configures all eight tiles, each with 16 rows of 64 bytes.
void ConfigureTiles() {
  struct alignas(64) {
    uint8_t palette = 1;
    uint8_t start_row = 0;
    uint8_t reserved[14] = {};
    uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } config;
  MemoryBarrier();
  _tile_loadconfig(&config);
}

void ReleaseTiles() { _tile_release(); }

// Computes a block with AMX. Tiles 0 to 3 hold the sums, tiles 4 and 5 the left
// operands, tiles 6 and 7 the right operands.
void MultiplyByTiles(const TileBlock& in) {
  const int64_t bytes = in.sums_row * 4;
  float* const below = in.sums + kTileRows * in.sums_row;
  MemoryBarrier();
  if (in.adds) {
    _tile_loadd(0, in.sums, bytes);
    _tile_loadd(1, in.sums + 16, bytes);
    _tile_loadd(2, below, bytes);
    _tile_loadd(3, below + 16, bytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  const uint16_t* left = in.left;
  const uint16_t* right = in.right;
  for (int64_t step = 0; step < in.steps; ++step) {
    _tile_loadd(4, left, in.left_row * 2);
    _tile_loadd(6, right, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, right + in.right_tile, 64);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, left + in.left_tile, in.left_row * 2);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    left += in.left_step;
    right += kTileElements;
  }
  _tile_stored(0, in.sums, bytes);
  _tile_stored(1, in.sums + 16, bytes);
  _tile_stored(2, below, bytes);
  _tile_stored(3, below + 16, bytes);
  MemoryBarrier();
}

}  // namespace
}  // namespace shardc::exec

HWY_POP_ATTRIBUTES
HWY_PUSH_ATTRIBUTES("avx512f,avx512bf16")

namespace shardc::exec {
namespace {

// The 8 x 2 vectors of sums leave enough registers for the operands. Each step
// has 16 products whose sums are independent, and a product takes fewer than 16
// cycles. No product therefore waits for an earlier one.
constexpr int64_t kVectorRows = 8;

// Loads a vector of 16 pairs of bfloat16 numbers.
inline __m512bh LoadPairs(const uint16_t* from) {
  __m512bh pairs;
  std::memcpy(&pairs, from, sizeof(pairs));
  return pairs;
}

// Returns a vector with 16 copies of the pair of numbers at `from`.
inline __m512bh RepeatPair(const uint16_t* from) {
  int32_t pair;
  std::memcpy(&pair, from, sizeof(pair));
  const __m512i all = _mm512_set1_epi32(pair);
  __m512bh pairs;
  std::memcpy(&pairs, &all, sizeof(pairs));
  return pairs;
}

// Computes kVectorRows rows of a block: the products of the rows at `left` with
// all columns of the block's right tiles. The results are stored in `sums`, or
// added to it.
void MultiplyRows(const TileBlock& in, const uint16_t* left, float* sums) {
  __m512 sum[kVectorRows][2];
#pragma GCC unroll 8
  for (int64_t r = 0; r < kVectorRows; ++r) {
    sum[r][0] = sum[r][1] = _mm512_setzero_ps();
  }
  const uint16_t* right = in.right;
  for (int64_t step = 0; step < in.steps; ++step) {
#pragma GCC unroll 4
    for (int64_t k = 0; k < kTileDepth; k += 2) {
      const __m512bh first = LoadPairs(right + k * kTileRows);
      const __m512bh second = LoadPairs(right + in.right_tile + k * kTileRows);
#pragma GCC unroll 8
      for (int64_t r = 0; r < kVectorRows; ++r) {
        const __m512bh pair = RepeatPair(left + r * in.left_row + k);
        sum[r][0] = _mm512_dpbf16_ps(sum[r][0], pair, first);
        sum[r][1] = _mm512_dpbf16_ps(sum[r][1], pair, second);
      }
    }
    left += in.left_step;
    right += kTileElements;
  }
#pragma GCC unroll 8
  for (int64_t r = 0; r < kVectorRows; ++r, sums += in.sums_row) {
    if (in.adds) {
      sum[r][0] = _mm512_add_ps(_mm512_loadu_ps(sums), sum[r][0]);
      sum[r][1] = _mm512_add_ps(_mm512_loadu_ps(sums + 16), sum[r][1]);
    }
    _mm512_storeu_ps(sums, sum[r][0]);
    _mm512_storeu_ps(sums + 16, sum[r][1]);
  }
}

void MultiplyByVectors(const TileBlock& in) {
  for (int64_t r = 0; r < in.rows; r += kVectorRows) {
    MultiplyRows(
        in,
        in.left + r / kTileRows * in.left_tile + r % kTileRows * in.left_row,
        in.sums + r * in.sums_row);
  }
}

}  // namespace
}  // namespace shardc::exec

HWY_POP_ATTRIBUTES

namespace shardc::exec {

BlockProducts::BlockProducts(Bf16Products products)
    : by_tiles_(products == Bf16Products::kTiles) {
  if (by_tiles_) ConfigureTiles();
}

BlockProducts::~BlockProducts() {
  if (by_tiles_) ReleaseTiles();
}

void BlockProducts::Multiply(const TileBlock& block) const {
  by_tiles_ ? MultiplyByTiles(block) : MultiplyByVectors(block);
}

}  // namespace shardc::exec

#else

#include <cstdlib>

namespace shardc::exec {

BlockProducts::BlockProducts(Bf16Products) : by_tiles_(false) { std::abort(); }
BlockProducts::~BlockProducts() { std::abort(); }
void BlockProducts::Multiply(const TileBlock&) const { std::abort(); }

}  // namespace shardc::exec

#endif  // defined(__x86_64__)
