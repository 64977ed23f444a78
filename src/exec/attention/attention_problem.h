// Directory: exec/attention. Computes attention over the slices of devices, by
// plain loops or kernels. Prepares the inputs and predicts the bytes that are
// sent.
// Its files include headers of these directories: source, model, floats, comm,
// exec/kernels, exec/machine.
//
// Declares the inputs of an attention operation: the unsharded tensors, the
// options, and the specs by which the mesh shards the tensors.
#ifndef SHARDC_EXEC_ATTENTION_ATTENTION_PROBLEM_H_
#define SHARDC_EXEC_ATTENTION_ATTENTION_PROBLEM_H_

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exec/machine/buffer.h"
#include "exec/machine/sharded.h"
#include "model/axis_rules.h"
#include "model/mesh.h"
#include "model/operation_settings.h"

namespace shardc::exec {

// The output of a query row whose keys are all masked.
enum class MaskedRows : uint8_t {
  kZero,  // zeros; the log-sum-exp is -inf
  kMean,  // the mean of v over all keys; zeros if the head has a sink
};

// The logit of a masked key with MaskedRows::kMean: -0.7 times the largest
// float32. An entry of the additive mask masks its key if the entry is at most
// kMaskValue / 2.
inline constexpr double kMaskValue = -0.7 * 3.4028234663852886e38;

// A sliding window: a query at position pq sees keys at pq - left <= pk <= pq +
// right. If `left` or `right` is absent, that side is unbounded.
struct Window {
  std::optional<int64_t> left;
  std::optional<int64_t> right;
  bool operator==(const Window&) const = default;
};

// Returns the window of the last `count` keys up to the query's own position: 0
// <= pq - pk < count.
inline Window LastKeys(int64_t count) { return {count - 1, 0}; }

// The options of one attention. The logit of query i and key j is
//   cap(scale * q.k) + bias + additive mask,
//   cap(s) = soft_cap*tanh(s/soft_cap)
// unless a mask, segments, lengths, `causal` or `window` mask it. If the
// positions pq of the query and pk of the key are not given, pk = j and
// pq = L - T + i, where T is the number of queries and L the number of keys.
// The last query thus has the position of the last key.
struct AttentionOptions {
  std::optional<double> scale;  // if absent, 1/sqrt(head dimension)
  double soft_cap = 0;          // 0: no cap
  bool causal = false;          // true: a query sees only keys with pk <= pq
  std::optional<Window> window;
  // With segment ids, a query attends only to keys with the same id. Queries
  // with a negative id, or with `padding_segment` as their id, attend to
  // nothing.
  std::optional<int64_t> padding_segment;
  MaskedRows masked_rows = MaskedRows::kZero;
  // The probability that a weight is dropped, in [0, 1). The other weights are
  // multiplied by 1/(1 - dropout) in the output, but not in the softmax's
  // denominator. KeepsWeight() of random.h decides for each weight from the
  // seed, the global batch row and query head, and both positions. Sharding
  // therefore cannot change the result.
  double dropout = 0;
  uint64_t dropout_seed = 0;

  double ScaleFor(int64_t head_dim) const {
    if (scale) return *scale;
    return head_dim > 0 ? 1 / std::sqrt(static_cast<double>(head_dim)) : 1;
  }
};

// The inputs of multi-head latent attention (MLA), with r latent dims and p
// dims that a rotary embedding rotates. A query has `nope` dims without a
// position embedding, followed by p rotated dims.
struct LatentInputs {
  Buffer latent;    // [B, S, r]
  Buffer rope_key;  // [B, S, p]
  Buffer up_key;    // [H, r, nope]
  Buffer up_value;  // [H, r, Dv]
};

// The inputs of one attention. In the shapes, B is the batch. T and S are the
// query length and the key length, H and K the numbers of query and key heads.
// D is the size of a query or key vector, Dv of a value vector. Packed inputs
// have N query tokens and M key tokens. Query, key and value are in `layout`.
struct AttentionProblem {
  Layout layout = Layout::kBthd;
  Buffer query;  // [B, T, H, D], [B, H, T, D] or [N, H, D]
  Buffer key;    // [B, S, K, D], [B, K, S, D] or [M, K, D]
  Buffer value;  // [B, S, K, Dv], [B, K, S, Dv] or [M, K, Dv]

  std::optional<Buffer> bias;  // [B|1, H|1, T|1, S]
  // BOOL, shaped as bias; nonzero: the query may attend to the key.
  std::optional<Buffer> mask;
  std::optional<Buffer> additive_mask;  // same shape as `bias`
  // The sinks, which are extra logits without a value: [H] or [sinks, K].
  std::optional<Buffer> softmax_aux;
  std::optional<Buffer> query_segments;  // I32 [B, T], or [1, N] if packed
  std::optional<Buffer> key_segments;    // I32 [B, S], or [1, M] if packed
  // I32 [B, T]; if absent, query i has position L - T + i, where L is the row's
  // entry in `key_lengths`, or S if there are no lengths.
  std::optional<Buffer> query_positions;
  // I32 [B, S]; if absent, key j has position j.
  std::optional<Buffer> key_positions;
  // I32 [B]. A key of batch row b is masked if its position is below
  // key_starts[b], or not below key_lengths[b]. An absent list masks no key.
  std::optional<Buffer> key_lengths;
  std::optional<Buffer> key_starts;
  // BOOL [B|1, H|1, blocks of T, blocks of S]. Nonzero if the queries of a
  // block see the keys of a block. Only the operation blocksparse reads this
  // table.
  std::optional<Buffer> blocks;

  // The inputs of the operations whose names begin with multi_latent_. If
  // present, only the shapes and dtypes of `key` and `value` are used.
  std::optional<LatentInputs> latent;

  AttentionOptions options;

  // Returns true if the inputs have shapes but no elements. An operation then
  // only reports whether it supports the problem.
  bool IsHollow() const { return query.IsHollow(); }
};

// The specs of the inputs and of the output. The dimensions are in the order of
// the problem's `layout`.
struct AttentionSpecs {
  Spec query, key, value, output;
  Spec bias, mask;  // `mask` is also the spec of the additive mask
  Spec query_segments, key_segments;
  Spec softmax_aux;
};

using shardc::BlockMask;
using shardc::DecodeMerge;
using shardc::SequenceOrder;

struct OperationSettings {
  int64_t blocksize_q = 512;
  int64_t blocksize_k = 512;
  int64_t page_size = 16;  // tokens in a page of the paged operations
  // If true, pages hold int8 with one float32 scale for each token and head.
  // They are quantised when written and dequantised when read.
  bool int8_pages = false;
  int64_t blocksize_b = 1;  // batch rows per block; it never changes a result
  // The dtype to which query, key and value are cast. If absent, they are cast
  // to their common dtype.
  std::optional<Dtype> runtime_dtype;
  Dtype softmax_dtype = Dtype::kF32;
  // Bits of quantised matmul operands, 8 or 4; 0: not quantised.
  int dot_bits = 0;
  // For ring attention only: if set, this is the only mesh axis that may shard
  // the query and key lengths.
  std::string sequence_axis;
  // For ulysses only: some of the mesh axes that shard the sequence. Keys are
  // passed around a ring over these axes, and the all_to_all runs over the
  // others.
  AxisGroup ring_axes;
  // True if the real program runs the steps of the ring in a loop, false if it
  // unrolls them. The simulated run is the same for both.
  bool scan_ring = true;
  SequenceOrder order = SequenceOrder::kContiguous;
  DecodeMerge merge = DecodeMerge::kAllReduce;
  BlockMask block_mask = BlockMask::kCausal;
  // For BlockMask::kGlobal: the number of key blocks at the start of the
  // sequence that all queries see.
  int64_t global_blocks = 1;
};

struct OperationOutcome {
  // Set if the operation cannot run with this layout. It has the reason and the
  // axis that causes it.
  std::optional<LayoutError> unsupported;
  ShardedTensor output;  // in the problem's layout, sharded by specs.output
  // True if no reduction crosses devices, so the bits must equal the unsharded
  // run's.
  bool exact = true;
  std::vector<std::string> remarks;
};

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_ATTENTION_ATTENTION_PROBLEM_H_
