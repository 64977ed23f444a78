// Attention over the slice that one device holds. The plain loops are the
// reference. AttendRows, AttendKeys, AttendBlock and AttendTile use the fast
// kernels instead if the kernels have all features of the problem.
//
// Each function works in one of two ways. The functions on scores first compute
// all logits of the slice, so that a collective can add partial logits before
// anything non-linear is applied to them. The other functions add blocks of
// keys to a state (max, sum, out) of each row, an online softmax (Milakov and
// Gimelshein 2018). In both, the loops compute in float32 and add in ascending
// key order. A row's result depends only on its own inputs and the block size.
#ifndef SHARDC_EXEC_ATTENTION_ATTENTION_LOOPS_H_
#define SHARDC_EXEC_ATTENTION_ATTENTION_LOOPS_H_

#include <cstdint>
#include <vector>

#include "exec/attention/attention_options.h"
#include "exec/kernels/arithmetic.h"
#include "exec/machine/buffer.h"

namespace shardc::exec {

// A [B|1, H|1, T|1, S|1] buffer, such as a bias, of which a slice reads a part.
// In each dimension, index i of the slice is index i plus the offset here, or 0
// if the dimension has size 1. If `buffer` is null, the input is absent.
struct BroadcastView {
  const Buffer* buffer = nullptr;
  int64_t batch = 0, head = 0, row = 0, key = 0;
};

struct LocalSlice {
  const Buffer* query = nullptr;  // [B, T, H, D]
  const Buffer* key = nullptr;    // [B, S, K, D]
  const Buffer* value = nullptr;  // [B, S, K, Dv]
  std::vector<int32_t> key_head;  // [H]: key head that a query head reads

  const Buffer* query_positions = nullptr;  // I32 [B, T]
  const Buffer* key_positions = nullptr;    // I32 [B, S]; < 0: empty slot
  const Buffer* query_segments = nullptr;   // I32 [B, T], or null
  const Buffer* key_segments = nullptr;     // I32 [B, S], or null
  const Buffer* key_lengths = nullptr;      // I32 [B], or null
  const Buffer* key_starts = nullptr;       // I32 [B], or null
  BroadcastView bias, mask, additive_mask;

  // The indices of this slice's first batch row and first head in the unsharded
  // tensor, on which dropout depends.
  int64_t batch_offset = 0, head_offset = 0;
  float scale = 1;
  // Whether each sequence has a single query row in the unsharded tensor.
  bool one_row = false;
  const AttentionOptions* options = nullptr;
  const Arithmetic* arithmetic = &kRightArithmetic;

  int64_t batch() const { return query->shape[0]; }
  int64_t rows() const { return query->shape[1]; }
  int64_t heads() const { return query->shape[2]; }
  int64_t keys() const { return key->shape[1]; }
};

// The running softmax of each row, in F32. For a row without keys max is -inf,
// and sum and out are 0.
struct SoftmaxState {
  Buffer max;  // [B, H, T]
  Buffer sum;  // [B, H, T]
  Buffer out;  // [B, H, T, Dv], not yet divided by sum
};
SoftmaxState EmptyState(const LocalSlice& slice);

// Returns the products scale * q.k of all rows and keys, [B, H, T, S].
Buffer DotScores(const LocalSlice& slice);
// Applies cap, bias and mask to scores in place. A masked logit becomes -inf,
// or kMaskValue if the options have MaskedRows::kMean.
void FinishScores(const LocalSlice& slice, Buffer& scores);
// Returns whether the fast kernels support the slice, apart from the output of
// rows that see no key (MaskedRows). The result depends only on values that all
// devices share, so it is the same for every sharding.
bool InKernels(const LocalSlice& slice);
// Adds all keys of the slice to the state, with the kernels if
// InKernels(slice), else with the loops. Rows that see no key then get the
// output that the options require.
void AttendRows(const LocalSlice& slice, SoftmaxState& state);
// Adds the finished scores of all keys of the slice to the state.
void AttendScores(const LocalSlice& slice, const Buffer& scores,
                  SoftmaxState& state);

// Adds keys [begin, end) of the slice to the state. The loops add blocks of
// `block_k` keys, the first of which starts at `begin`. The kernels ignore
// `block_k` and choose block sizes themselves. The first comment of attend.cc
// lists what runs in the loops.
void AttendKeys(const LocalSlice& slice, int64_t begin, int64_t end,
                int64_t block_k, SoftmaxState& state);
// Does the same as AttendKeys for query rows [row_begin, row_end) only.
void AttendBlock(const LocalSlice& slice, int64_t row_begin, int64_t row_end,
                 int64_t begin, int64_t end, int64_t block_k,
                 SoftmaxState& state);

// A range of rows and a range of keys of one batch row and head.
struct Tile {
  int64_t batch, head, row_begin, row_end, key_begin, key_end;
};
void AttendTile(const LocalSlice& slice, const Tile& tile, int64_t block_k,
                SoftmaxState& state);
// Computes the tile with the loops, even if the kernels have all features that
// it needs.
void AttendTileByLoops(const LocalSlice& slice, const Tile& tile,
                       int64_t block_k, SoftmaxState& state);

// VisibleAt returns whether query row (b, h, t) may attend to `key`. AddedAt
// returns the sum of bias and additive mask that is added to their logit.
bool VisibleAt(const LocalSlice& slice, int64_t b, int64_t h, int64_t t,
               int64_t key);
float AddedAt(const LocalSlice& slice, int64_t b, int64_t h, int64_t t,
              int64_t key);
// Returns 0 if dropout removes the weight of the key, else the factor by which
// the weight is multiplied.
float KeepAt(const LocalSlice& slice, int64_t b, int64_t h, int64_t t,
             int64_t key);

// Adds extra logits [sinks, H] to the denominator, once for each row.
void AddSinks(const Buffer& sinks, SoftmaxState& state,
              const Arithmetic& arithmetic = kRightArithmetic);
// Returns [B, T, H, Dv]: out / sum rounded to `dtype`, with zeros where sum is
// 0.
Buffer FinishState(const SoftmaxState& state, Dtype dtype,
                   const Arithmetic& arithmetic = kRightArithmetic);
// Returns [B, H, T]: max + log(sum), or -inf for rows without keys.
Buffer LogSumExp(const SoftmaxState& state);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_ATTENTION_ATTENTION_LOOPS_H_
