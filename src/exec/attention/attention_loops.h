// Attention over what one device holds: plain loops, the oracle, and behind
// the same functions the fast kernels, where a problem has nothing unusual.
//
// Two forms. Scores: all logits of the slice at once, so that a collective
// can add parts of them before anything non-linear. Online: blocks of keys
// absorbed into a state (max, sum, out) for each row, Milakov and Gimelshein
// 2018. Both compute in float32, sums in ascending key order; a row's result
// depends on its own inputs and the block size alone.
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
  // The whole query, on all devices, has one row a sequence.
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

// scale * q.k, [B, H, T, S].
Buffer DotScores(const LocalSlice& slice);
// Cap, bias and mask, in place. Masked: -inf, or kMaskValue in mean mode.
void FinishScores(const LocalSlice& slice, Buffer& scores);
// Whether the fast kernels could absorb all of the slice's keys, masked rows
// aside: decided by what is alike on all devices and unsharded.
bool InKernels(const LocalSlice& slice);
// The same by them, block by block, with masked rows as the options say.
void AttendRows(const LocalSlice& slice, SoftmaxState& state);
// Absorbs finished scores of all the slice's keys at once.
void AttendScores(const LocalSlice& slice, const Buffer& scores,
                  SoftmaxState& state);

// Absorbs keys [begin, end) of the slice in blocks from `begin`: of `block_k`
// in the loops, of kKeyBlock in the kernels. Which of the two runs depends on
// what is alike on all devices and unsharded (attend.cc).
void AttendKeys(const LocalSlice& slice, int64_t begin, int64_t end,
                int64_t block_k, SoftmaxState& state);
// The same for query rows [row_begin, row_end) only.
void AttendBlock(const LocalSlice& slice, int64_t row_begin, int64_t row_end,
                 int64_t begin, int64_t end, int64_t block_k,
                 SoftmaxState& state);

// One batch row and head of it.
struct Tile {
  int64_t batch, head, row_begin, row_end, key_begin, key_end;
};
void AttendTile(const LocalSlice& slice, const Tile& tile, int64_t block_k,
                SoftmaxState& state);
// Always in loops.
void AttendTileByLoops(const LocalSlice& slice, const Tile& tile,
                       int64_t block_k, SoftmaxState& state);

// Whether query row (b, h, t) may attend to `key`; what is added to their
// capped product, bias and additive mask.
bool VisibleAt(const LocalSlice& slice, int64_t b, int64_t h, int64_t t,
               int64_t key);
float AddedAt(const LocalSlice& slice, int64_t b, int64_t h, int64_t t,
              int64_t key);
// 0 where dropout takes the weight, else what it is multiplied by.
float KeepAt(const LocalSlice& slice, int64_t b, int64_t h, int64_t t,
             int64_t key);

// Extra logits of the denominator, once per row: [sinks, H].
void AddSinks(const Buffer& sinks, SoftmaxState& state,
              const Arithmetic& arithmetic = kRightArithmetic);
// out / sum rounded to `dtype`, zeros where sum is 0: [B, T, H, Dv].
Buffer FinishState(const SoftmaxState& state, Dtype dtype,
                   const Arithmetic& arithmetic = kRightArithmetic);
// max + log(sum), -inf for empty rows: [B, H, T].
Buffer LogSumExp(const SoftmaxState& state);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_ATTENTION_ATTENTION_LOOPS_H_
