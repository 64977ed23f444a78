// Attention over the slice of a tensor that one device holds, computed by plain
// loops. AttendRows, AttendKeys, AttendBlock and AttendTile use the fast
// kernels instead if the kernels have all features that the attention needs.
// The loops are the reference with which the kernels are compared.
//
// There are two ways to compute attention over a slice. DotScores, FinishScores
// and AttendScores compute all logits of the slice first. A collective can then
// add the partial logits of several devices before cap, mask and softmax are
// applied. The other way is an online softmax (Milakov and Gimelshein 2018),
// which AttendKeys and the functions after it compute. It adds one block of
// keys after the other to a state (max, sum, out) of each row.
//
// In both ways, the loops compute in float32 and add in ascending order of the
// keys. The result of a row depends only on the row's own inputs and on the
// block size.
#ifndef SHARDC_EXEC_ATTENTION_ATTENTION_LOOPS_H_
#define SHARDC_EXEC_ATTENTION_ATTENTION_LOOPS_H_

#include <cstdint>
#include <vector>

#include "exec/attention/attention_problem.h"
#include "exec/kernels/arithmetic.h"
#include "exec/machine/buffer.h"

namespace shardc::exec {

// A device's view of an input that broadcasts, such as a bias [B|1, H|1, T|1,
// S|1]. In each dimension, index i of the device's slice is index i + offset of
// the buffer, or index 0 if the buffer has size 1 there. The offsets are the
// members `batch`, `head`, `row` and `key`. `buffer` is null if the input is
// absent.
struct BroadcastView {
  const Buffer* buffer = nullptr;
  int64_t batch = 0, head = 0, row = 0, key = 0;
};

// The slices of an attention's inputs that one device holds: B batch rows, T
// query rows, S keys, H query heads, K key heads, and D and Dv dims. Absent
// inputs are null.
struct LocalSlice {
  const Buffer* query = nullptr;  // [B, T, H, D]
  const Buffer* key = nullptr;    // [B, S, K, D]
  const Buffer* value = nullptr;  // [B, S, K, Dv]
  std::vector<int32_t> key_head;  // [H]: the key head of each query head

  const Buffer* query_positions = nullptr;  // I32 [B, T]
  const Buffer* key_positions = nullptr;    // I32 [B, S]; negative: no key
  const Buffer* query_segments = nullptr;   // I32 [B, T], or null
  const Buffer* key_segments = nullptr;     // I32 [B, S], or null
  // I32 [B], or null. A key of batch row b is masked if its position is below
  // key_starts[b], or not below key_lengths[b].
  const Buffer* key_lengths = nullptr;
  const Buffer* key_starts = nullptr;
  BroadcastView bias, mask, additive_mask;

  // The index of the slice's first batch row, and of its first query head, in
  // the unsharded tensor. Dropout depends on these indices.
  int64_t batch_offset = 0, head_offset = 0;
  float scale = 1;
  // True if each sequence has a single query row in the unsharded tensor. The
  // fast kernels then use DecodeAttention instead of PrefillAttention.
  bool one_row = false;
  const AttentionOptions* options = nullptr;
  const Arithmetic* arithmetic = &kRightArithmetic;

  int64_t batch() const { return query->shape[0]; }
  int64_t rows() const { return query->shape[1]; }
  int64_t heads() const { return query->shape[2]; }
  int64_t keys() const { return key->shape[1]; }
};

// The running softmax, in F32, of each query token in each of the B batch rows
// and H query heads. For a token without keys, max is -inf; sum and out are 0.
struct SoftmaxState {
  Buffer max;  // [B, H, T]
  Buffer sum;  // [B, H, T]
  Buffer out;  // [B, H, T, Dv], not yet divided by sum
};
SoftmaxState EmptyState(const LocalSlice& slice);

// Returns the products scale * q.k of all query rows and keys, [B, H, T, S].
Buffer DotScores(const LocalSlice& slice);
// Applies cap, bias and mask to scores in place. A masked logit becomes -inf,
// or kMaskValue if the options have MaskedRows::kMean.
void FinishScores(const LocalSlice& slice, Buffer& scores);
// Returns true if the fast kernels support the slice. Ignores MaskedRows, the
// option for rows that see no key. The result depends only on values that all
// devices share, so it is the same for every sharding.
bool InKernels(const LocalSlice& slice);
// Computes the attention of all query rows over all keys of the slice, and
// accumulates it in `state`, the online softmax of each row. Uses the fast
// kernels if InKernels(slice) is true, else the plain loops. Rows that see no
// key then get the output that the options require.
void AttendRows(const LocalSlice& slice, SoftmaxState& state);
// Like AttendRows, but from logits that are already computed, and always with
// the plain loops. `scores` are the logits of all rows and keys after
// FinishScores.
void AttendScores(const LocalSlice& slice, const Buffer& scores,
                  SoftmaxState& state);

// Accumulates the attention of all query rows over keys [begin, end) in
// `state`. The plain loops process blocks of `block_k` keys, the first of which
// starts at `begin`. The fast kernels ignore `block_k` and choose block sizes
// themselves. attention_loops.cc describes which problems run in the fast
// kernels.
void AttendKeys(const LocalSlice& slice, int64_t begin, int64_t end,
                int64_t block_k, SoftmaxState& state);
// Like AttendKeys, but only for query rows [row_begin, row_end).
void AttendBlock(const LocalSlice& slice, int64_t row_begin, int64_t row_end,
                 int64_t begin, int64_t end, int64_t block_k,
                 SoftmaxState& state);

// Query rows [row_begin, row_end) and keys [key_begin, key_end) of one batch
// row and one head.
struct Tile {
  int64_t batch, head, row_begin, row_end, key_begin, key_end;
};
void AttendTile(const LocalSlice& slice, const Tile& tile, int64_t block_k,
                SoftmaxState& state);
// Computes the tile with the plain loops even if the fast kernels support it.
void AttendTileByLoops(const LocalSlice& slice, const Tile& tile,
                       int64_t block_k, SoftmaxState& state);

// VisibleAt returns true if query row t of batch row b and head h may attend to
// `key`. AddedAt returns the bias plus the additive mask, which are added to
// the logit of this pair.
bool VisibleAt(const LocalSlice& slice, int64_t b, int64_t h, int64_t t,
               int64_t key);
float AddedAt(const LocalSlice& slice, int64_t b, int64_t h, int64_t t,
              int64_t key);
// Returns 0 if dropout removes the weight of the key, else the factor by which
// the weight is multiplied.
float KeepAt(const LocalSlice& slice, int64_t b, int64_t h, int64_t t,
             int64_t key);

// Adds extra logits (sinks) to the softmax denominator of each row. `sinks` is
// [number of sinks, H].
void AddSinks(const Buffer& sinks, SoftmaxState& state,
              const Arithmetic& arithmetic = kRightArithmetic);
// Returns the outputs [B, T, H, Dv]: out / sum, rounded to `dtype`, or zeros
// where sum is 0.
Buffer FinishState(const SoftmaxState& state, Dtype dtype,
                   const Arithmetic& arithmetic = kRightArithmetic);
// Returns the log-sum-exp of each row, [B, H, T]: max + log(sum), or -inf for
// rows without keys.
Buffer LogSumExp(const SoftmaxState& state);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_ATTENTION_ATTENTION_LOOPS_H_
