// The dense reference: attention over whole tensors in float64, written from
// the definition, in loops that a reader can check. It shares no arithmetic
// with the operations that it judges.
#ifndef SHARDC_EXEC_ATTENTION_REFERENCE_H_
#define SHARDC_EXEC_ATTENTION_REFERENCE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/attention/attention_options.h"
#include "exec/kernels/dense_array.h"
#include "model/layout.h"

namespace shardc::exec {

// B batch, T query length, S key length, H query heads, K key heads (K
// divides H), D and Dv dims. Query head h reads key head h / (H/K). An empty
// array or vector means that the input is absent.
struct ReferenceInputs {
  DenseArray query;  // [B, T, H, D]
  DenseArray key;    // [B, S, K, D]
  DenseArray value;  // [B, S, K, Dv]

  DenseArray bias;           // [B|1, H|K|1, T|1, S]
  DenseArray mask;           // [B|1, H|K|1, T|1, S], not 0: may attend
  DenseArray additive_mask;  // the same; at or below kMaskValue/2: masked
  DenseArray sinks;          // [sinks, H]: further logits of the denominator

  std::vector<int64_t> query_segments;   // [B, T]
  std::vector<int64_t> key_segments;     // [B, S]
  std::vector<int64_t> query_positions;  // [B, T]
  // [B, S]; a negative one is an empty slot, which nothing attends to.
  std::vector<int64_t> key_positions;
  std::vector<int64_t> key_lengths;  // [B]: only pk < length; else S
  std::vector<int64_t> key_starts;   // [B]: only pk >= start; else 0

  // These are rows and heads of a larger attention from here on, which
  // dropout counts by.
  int64_t first_row = 0, first_head = 0;
};

struct ReferenceResult {
  DenseArray output;   // [B, T, H, Dv]
  DenseArray lse;      // [B, T, H, 1]: log of the denominator, sinks included
  DenseArray weights;  // [B, H, T, S] before dropout, when asked for
};

// Nothing, and the reason in `why`, when the shapes do not fit each other.
std::optional<ReferenceResult> ReferenceAttention(
    const ReferenceInputs& in, const AttentionOptions& options,
    std::string& why, bool keep_weights = false);

// softmax_aux to `sinks`: rank 1 is one sink per query head (H values) or
// per key head (K values); rank 2 is [sinks, K], every group's heads alike.
std::optional<DenseArray> SinksOf(const DenseArray& aux, int64_t heads,
                                  int64_t key_heads, std::string& why);

// [B, L, N, D] and back. From kThd gives [1, all tokens, N, D].
DenseArray ToBthd(const DenseArray& x, Layout layout);
DenseArray FromBthd(const DenseArray& x, Layout layout);

// What tells packed sequences apart: segments and positions of each token,
// one after the other, for cumulative lengths (0, ..., all tokens). Tokens
// after the last have segment -1.
struct Packed {
  std::vector<int64_t> segments;
  std::vector<int64_t> positions;
};
Packed PackedKeys(std::span<const int64_t> cumulative, int64_t tokens);
// Queries are the last ones of their keys' sequences.
Packed PackedQueries(std::span<const int64_t> cumulative,
                     std::span<const int64_t> key_cumulative, int64_t tokens);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_ATTENTION_REFERENCE_H_
