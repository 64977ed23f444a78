// Attention over the slice that one device holds. The plain loops are the
// reference; the same functions call the fast kernels if the problem uses no
// feature that the kernels lack.
//
// There are two forms. "Scores" computes all logits of the slice at the same
// time, so that a collective can add partial logits before anything non-linear.
// "Online" adds blocks of keys to a state (max, sum, out) for each row (Milakov
// and Gimelshein 2018). Both compute in float32 and sum in ascending key order;
// a row's result depends only on its own inputs and the block size.
#ifndef SHARDC_EXEC_ATTENTION_ATTENTION_LOOPS_H_
#define SHARDC_EXEC_ATTENTION_ATTENTION_LOOPS_H_

#include <cstdint>
#include <vector>

#include "exec/attention/attention_options.h"
#include "exec/kernels/arithmetic.h"
#include "exec/machine/buffer.h"

namespace shardc::exec {

// A rank-4 [B|1, H|1, T|1, S|1] buffer read at the slice's indices plus the
// offsets of the slice within it; null: absent.
struct BroadcastView {
  const Buffer* buffer = nullptr;
  int64_t batch = 0, head = 0, row = 0, key = 0;
};

struct LocalSlice {
  const Buffer* query = nullptr;  // [B, T, H, D]
  const Buffer* key = nullptr;    // [B, S, K, D]
  const Buffer* value = nullptr;  // [B, S, K, Dv]
  std::vector<int32_t> key_head;  // [H]: the local key head it reads

  const Buffer* query_positions = nullptr;  // I32 [B, T]
  const Buffer* key_positions = nullptr;    // I32 [B, S]; < 0: empty slot
  const Buffer* query_segments = nullptr;   // I32 [B, T], or null
  const Buffer* key_segments = nullptr;     // I32 [B, S], or null
  const Buffer* key_lengths = nullptr;      // I32 [B], or null
  const Buffer* key_starts = nullptr;       // I32 [B], or null
  BroadcastView bias, mask, additive_mask;

  // Global indices of this slice's first row and head, for dropout.
  int64_t batch_offset = 0, head_offset = 0;
  float scale = 1;
  // Whether the query has one row per sequence, counted over all devices.
  bool one_row = false;
  const AttentionOptions* options = nullptr;
  const Arithmetic* arithmetic = &kRightArithmetic;

  int64_t batch() const { return query->shape[0]; }
  int64_t rows() const { return query->shape[1]; }
  int64_t heads() const { return query->shape[2]; }
  int64_t keys() const { return key->shape[1]; }
};

// F32. Empty rows: max -inf, sum 0, out 0.
struct SoftmaxState {
  Buffer max;  // [B, H, T]
  Buffer sum;  // [B, H, T]
  Buffer out;  // [B, H, T, Dv], not yet divided by sum
};
SoftmaxState EmptyState(const LocalSlice& slice);

// Returns scale * q.k, [B, H, T, S].
Buffer DotScores(const LocalSlice& slice);
// Applies cap, bias and mask in place. A masked logit becomes -inf, or
// kMaskValue in mean mode.
void FinishScores(const LocalSlice& slice, Buffer& scores);
// Returns whether the fast kernels can process all keys of the slice, apart
// from masked rows. The result depends only on values that all devices share,
// so it is the same for every sharding.
bool InKernels(const LocalSlice& slice);
// Processes all keys of the slice with the kernels, block by block, and
// computes masked rows as the options require.
void AttendRows(const LocalSlice& slice, SoftmaxState& state);
// Adds the finished scores of all keys of the slice to the state.
void AttendScores(const LocalSlice& slice, const Buffer& scores,
                  SoftmaxState& state);

// Adds keys [begin, end) of the slice to the state in blocks that start at
// `begin`: of `block_k` keys in the loops, of kKeyBlock in the kernels.
// attend.cc describes which of the two runs.
void AttendKeys(const LocalSlice& slice, int64_t begin, int64_t end,
                int64_t block_k, SoftmaxState& state);
// AttendKeys for query rows [row_begin, row_end) only.
void AttendBlock(const LocalSlice& slice, int64_t row_begin, int64_t row_end,
                 int64_t begin, int64_t end, int64_t block_k,
                 SoftmaxState& state);

// Some rows and keys of one batch row and head.
struct Tile {
  int64_t batch, head, row_begin, row_end, key_begin, key_end;
};
void AttendTile(const LocalSlice& slice, const Tile& tile, int64_t block_k,
                SoftmaxState& state);
// Computes the tile with the loops, even if the kernels could.
void AttendTileByLoops(const LocalSlice& slice, const Tile& tile,
                       int64_t block_k, SoftmaxState& state);

// VisibleAt returns whether query row (b, h, t) may attend to `key`. The other
// function returns the bias and additive mask of their capped product.
bool VisibleAt(const LocalSlice& slice, int64_t b, int64_t h, int64_t t,
               int64_t key);
float AddedAt(const LocalSlice& slice, int64_t b, int64_t h, int64_t t,
              int64_t key);
// Returns 0 if dropout removes the weight, else the factor for a kept one.
float KeepAt(const LocalSlice& slice, int64_t b, int64_t h, int64_t t,
             int64_t key);

// Adds extra logits [sinks, H] to the denominator, once for each row.
void AddSinks(const Buffer& sinks, SoftmaxState& state,
              const Arithmetic& arithmetic = kRightArithmetic);
// Returns out / sum rounded to `dtype`, zeros where sum is 0: [B, T, H, Dv].
Buffer FinishState(const SoftmaxState& state, Dtype dtype,
                   const Arithmetic& arithmetic = kRightArithmetic);
// Returns max + log(sum), -inf for empty rows: [B, H, T].
Buffer LogSumExp(const SoftmaxState& state);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_ATTENTION_ATTENTION_LOOPS_H_
