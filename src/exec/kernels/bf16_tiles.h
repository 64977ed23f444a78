// Multiplies bfloat16 matrices, with sums in float32, for prefill attention.
// The operands are packed in tiles, which are the operands of AMX instructions.
// Each tile has 1 KiB:
//
//   left tile   16 rows of 32 numbers: [row][k]
//   right tile  32 rows of 16 numbers, pairs of rows interleaved:
//               [k / 2][column][k % 2]
//
// For the scores, a left tile holds 16 query rows and a right tile holds 16
// keys, so keys are transposed by pairs of dims. For the output, a left tile
// holds weights of 32 keys and a right tile holds 16 dims of the values.
//
// Without AMX, vector instructions multiply the same tiles. One operand of the
// instruction is a vector with two interleaved rows of the right tile, which
// are 16 pairs of numbers. The other operand is a vector with 16 copies of one
// pair from a row of the left tile.
//
// Each product of two bfloat16 numbers is exact before it is added in float32.
// Subnormal inputs are read as 0. An element's sum depends only on its row and
// its column.
//
// All functions need HasBf16Products(kVectors) of floats/bf16_products.h.
#ifndef SHARDC_EXEC_KERNELS_BF16_TILES_H_
#define SHARDC_EXEC_KERNELS_BF16_TILES_H_

#include <cstdint>

#include "floats/bf16_products.h"

namespace shardc::exec {

inline constexpr int64_t kTileRows = 16;
inline constexpr int64_t kTileDepth = 32;
inline constexpr int64_t kTileElements = kTileRows * kTileDepth;
// Products are computed for blocks of 2 x 2 tiles.
inline constexpr int64_t kBlockRows = 2 * kTileRows;
inline constexpr int64_t kBlockColumns = 32;

// Rows of bfloat16 numbers in memory. `stride` is the number of elements from
// one row to the next.
struct Bf16Rows {
  const uint16_t* data = nullptr;
  int64_t stride = 0;
  int64_t rows = 0;
  int64_t dim = 0;
};

// The functions below pack rows into tiles. In their comments, R and D are
// from.rows and from.dim, rounded up to multiples of 32. The added elements are
// zeros.

// Packs at most kBlockRows rows as left tiles, two for each 32 dims:
// [D / 32][2] tiles.
void PackLeft(const Bf16Rows& from, uint16_t* to);
// Packs the transpose of the rows as right tiles: each row becomes a column, as
// keys do for the scores. Writes [R / 16][D / 32] tiles.
void PackColumns(const Bf16Rows& from, uint16_t* to);
// Packs the rows as right tiles without a transpose, as values are packed for
// the output. `to` is an array [D / 16][steps] of tiles: each group of 16 dims
// has room for `steps` tiles, and the first R / 32 of them are written.
void PackPairs(const Bf16Rows& from, int64_t steps, uint16_t* to);

// The arguments for a block of 32 x 32 float32 sums. Each of `steps` steps adds
// 32 products to every sum, from two left tiles and two right tiles.
struct TileBlock {
  const uint16_t* left = nullptr;
  int64_t left_row = 0;  // stride of the rows of a tile, in elements
  // Distances in elements: `left_tile` from the first to the second left tile
  // of a step, and `left_step` from a tile of one step to that of the next.
  int64_t left_tile = 0;
  int64_t left_step = 0;
  const uint16_t* right = nullptr;
  // The distance in elements from the first to the second right tile of a step.
  int64_t right_tile = 0;
  int64_t steps = 0;
  // The number of rows, from row 0 on, whose sums the caller needs.
  int64_t rows = kBlockRows;
  bool adds = false;  // true: add to `sums`; false: overwrite `sums`
  float* sums = nullptr;
  int64_t sums_row = 0;  // stride of the rows of `sums`, in elements
};

// Multiplies blocks with tile instructions (kTiles) or vector instructions
// (kVectors). For kTiles, the tile registers of this thread are configured as
// long as the object exists.
class BlockProducts {
 public:
  explicit BlockProducts(Bf16Products products);
  ~BlockProducts();
  BlockProducts(const BlockProducts&) = delete;
  BlockProducts& operator=(const BlockProducts&) = delete;

  void Multiply(const TileBlock& block) const;

 private:
  bool by_tiles_;
};

// One row of scores of a block of keys, and the row's online softmax.
struct Bf16Weights {
  const float* scores = nullptr;
  float scale = 1;  // positive factor on the scores
  // The weights of keys [c0, c1) are written. Both are multiples of 32.
  int64_t c0 = 0;
  int64_t c1 = 0;
  // The row attends to keys [lo, hi), which are within [c0, c1).
  int64_t lo = 0;
  int64_t hi = 0;
  uint16_t* weights = nullptr;
  float* max = nullptr;  // in and out: largest scaled score so far
  float* sum = nullptr;  // in and out: sum of the unrounded weights so far
};
// Writes the weights: exp(scale * score - max), rounded to bfloat16, for
// visible keys, and 0 for masked keys. Updates max and sum. Returns the factor
// by which the caller must multiply the output accumulated before.
float RoundWeights(const Bf16Weights& row);

// Multiplies `count` elements of `row` by `factor`; `count` is a multiple of
// 16.
void ScaleFloats(float factor, int64_t count, float* row);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_KERNELS_BF16_TILES_H_
