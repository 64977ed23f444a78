// The options of attention, such as its scale, cap, masks and dropout. All
// attention operations read the same options.
#ifndef SHARDC_EXEC_ATTENTION_ATTENTION_OPTIONS_H_
#define SHARDC_EXEC_ATTENTION_ATTENTION_OPTIONS_H_

#include <cmath>
#include <cstdint>
#include <optional>

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

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_ATTENTION_ATTENTION_OPTIONS_H_
