// Attention over unsharded tensors, computed by its definition.
#ifndef SHARDC_DENSE_ATTENTION_H_
#define SHARDC_DENSE_ATTENTION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dense/array.h"

namespace shardc::dense {

// The logit of every masked entry with the option `mean_of_masked`: -0.7 times
// the largest float32. An entry of an additive mask hides its key if it is at
// most half of this number.
inline constexpr double kMasked = -0.7 * 0x1.fffffep127;

// The options of attention. The logit of query i and key j is
//   cap(scale * q.k) + bias + additive mask,  cap(s) =
//   soft_cap*tanh(s/soft_cap)
// unless masks, segments, lengths, `causal` or the window hide the key. With
// the positions pq of the query and pk of the key, a query sees pk <= pq if
// causal, and pq - left <= pk <= pq + right in a window.
struct Options {
  std::optional<double> scale;  // 1/sqrt(dim of the query) where absent
  double soft_cap = 0;          // 0: none
  bool causal = false;
  std::optional<int64_t> left, right;
  // A query sees only keys of its own segment id. Queries with a negative id or
  // with the id `padding_segment` see no keys.
  std::optional<int64_t> padding_segment;
  // Whether the output of a row that sees no key is the mean of all values,
  // unless the row has a sink. If false, or with a sink, it is zeros.
  bool mean_of_masked = false;
  // The fraction of weights that are dropped, chosen by `Drops` of dropout.h.
  // The other weights are multiplied by 1/(1 - dropout). The denominator of the
  // softmax includes the dropped weights.
  double dropout = 0;
  uint64_t dropout_seed = 0;

  double ScaleOf(int64_t dim) const;
};

// The inputs of attention. B batch, T query length, S key length, H query
// heads, K key heads (K divides H), D and Dv dims. Query head h reads key head
// h / (H/K). An empty array or vector means that the input is absent.
struct Inputs {
  Array query;  // [B, T, H, D]
  Array key;    // [B, S, K, D]
  Array value;  // [B, S, K, Dv]
  // [H, Dv, Do]: if present, a head's values are the product of `value` and the
  // head's matrix, and have Do dims.
  Array value_up;

  Array bias;           // [B|1, H|K|1, T|1, S]
  Array mask;           // [B|1, H|K|1, T|1, S]; 0 hides the key
  Array additive_mask;  // [B|1, H|K|1, T|1, S]; <= kMasked/2 hides
  // Additional logits in the denominator: [H], one for each query head, or
  // [sinks, K], which the query heads of a key head share. [K] is the same as
  // [1, K].
  Array sinks;
  // [B|1, H|1, T/block_rows, S/block_keys], both rounded up. The queries of a
  // block see no key of a block if the element is 0. Blocks have block_rows
  // queries and block_keys keys.
  Array blocks;
  int64_t block_rows = 1, block_keys = 1;

  std::vector<int64_t> query_segments;  // [B, T]
  std::vector<int64_t> key_segments;    // [B, S]
  // [B, T]; absent: the last query is at KeyLength(b) - 1.
  std::vector<int64_t> query_positions;
  // [B, S]; a negative position is an empty slot, which no query sees.
  std::vector<int64_t> key_positions;
  std::vector<int64_t> key_lengths;  // [B]: hides pk >= length; absent: S
  std::vector<int64_t> key_starts;   // [B]: hides pk < start; absent: 0

  // If these inputs are a part of a larger attention: the indices of their
  // first batch row and query head there. Dropout depends on the indices in the
  // larger attention.
  int64_t first_row = 0, first_head = 0;

  int64_t KeyLength(int64_t b) const;
  int64_t QueryPosition(int64_t b, int64_t i) const;
  int64_t KeyPosition(int64_t b, int64_t j) const;
  // Returns sink `a` of a query head, 0 <= a < SinkCount().
  double Sink(int64_t a, int64_t head) const;
  int64_t SinkCount() const;
};

struct Result {
  Array output;   // [B, T, H, Dv], or Do
  Array lse;      // [B, T, H, 1]: log of the denominator, sinks included
  Array weights;  // [B, H, T, S] before dropout; empty unless requested
};

// Computes attention. Returns nullopt, with the reason in `why`, if the shapes
// do not fit each other. The result has `weights` if `keep_weights`.
std::optional<Result> Attention(const Inputs& in, const Options& options,
                                std::string& why, bool keep_weights = false);

// Returns the largest |scale * q.k| over all pairs, including hidden ones.
double LargestLogit(const Inputs& in, const Options& options);

}  // namespace shardc::dense

#endif  // SHARDC_DENSE_ATTENTION_H_
