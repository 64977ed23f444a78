// Computes attention with plain loops, row by row, for inputs that need a
// feature that the fast kernels lack. Each logit is the product of a query and
// a key, to which the loops apply cap, bias and masks. An online softmax then
// adds the logit to the state of the row: the largest logit (max), the sum of
// the weights (sum), and the weighted sum of the values (out). If a logit is
// larger than max, it becomes max, and sum and out are first multiplied by
// e^(old max - new max).
//
// For example, a row has the logits 1 and 3, of keys with the values v0 and v1:
//
//   after logit 1: max 1, sum 1, out v0
//   after logit 3: max 3, sum e^-2 + 1 = 1.135, out e^-2 v0 + v1
//   at the end: the output is out / sum
#include "exec/attention/attention_loops.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "exec/kernels/kernels.h"
#include "exec/machine/random.h"
#include "source/size.h"

namespace shardc::exec {
namespace {

// Returns the dot product of a and b. It is summed in eight lanes, which fixes
// the order of additions and lets the compiler vectorise the loop.
float Dot(const float* a, const float* b, int64_t count) {
  float lane[8] = {};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (int j = 0; j < 8; ++j) lane[j] += a[i + j] * b[i + j];
  }
  float tail = 0;
  for (; i < count; ++i) tail += a[i] * b[i];
  return (((lane[0] + lane[4]) + (lane[2] + lane[6])) +
          ((lane[1] + lane[5]) + (lane[3] + lane[7]))) +
         tail;
}

int64_t Offset(const BroadcastView& view, int64_t b, int64_t h, int64_t t,
               int64_t s) {
  const Shape& shape = view.buffer->shape;
  const int64_t at[4] = {
      shape[0] == 1 ? 0 : view.batch + b, shape[1] == 1 ? 0 : view.head + h,
      shape[2] == 1 ? 0 : view.row + t, shape[3] == 1 ? 0 : view.key + s};
  return ((at[0] * shape[1] + at[1]) * shape[2] + at[2]) * shape[3] + at[3];
}

float RealAt(const BroadcastView& view, int64_t b, int64_t h, int64_t t,
             int64_t s) {
  return view.buffer->real[AsIndex(Offset(view, b, h, t, s))];
}

int32_t IntegerAt(const Buffer* buffer, int64_t b, int64_t i) {
  return buffer->integers[AsIndex(b * buffer->shape[1] + i)];
}

// One query row (b, h, t) of the slice: batch row b, head h, token t.
class Row {
 public:
  Row(const LocalSlice& slice, int64_t b, int64_t h, int64_t t)
      : s_(slice),
        b_(b),
        h_(h),
        t_(t),
        key_heads_(slice.key->shape[2]),
        dim_(slice.query->shape[3]),
        value_dim_(slice.value->shape[3]),
        arithmetic_(*slice.arithmetic),
        key_head_(slice.key_head[AsIndex(h)]),
        position_(IntegerAt(slice.query_positions, b, t)) {}

  const float* Query() const {
    return s_.query->real.data() +
           ((b_ * s_.rows() + t_) * s_.heads() + h_) * dim_;
  }
  const float* Key(int64_t key) const {
    return s_.key->real.data() +
           ((b_ * s_.keys() + key) * key_heads_ + key_head_) * dim_;
  }
  const float* Value(int64_t key) const {
    return s_.value->real.data() +
           ((b_ * s_.keys() + key) * key_heads_ + key_head_) * value_dim_;
  }

  float Score(int64_t key) const {
    return Dot(Query(), Key(key), dim_) * s_.scale;
  }

  bool Visible(int64_t key) const {
    const AttentionOptions& options = *s_.options;
    const int64_t pk = IntegerAt(s_.key_positions, b_, key);
    const auto row = AsIndex(b_);
    if (pk < 0) return false;
    if (s_.key_lengths != nullptr && pk >= s_.key_lengths->integers[row]) {
      return false;
    }
    if (s_.key_starts != nullptr && pk < s_.key_starts->integers[row]) {
      return false;
    }
    if (options.causal && pk > position_) return false;
    if (options.window && !InWindow(*options.window, pk)) return false;
    return SegmentsMeet(key) && Unmasked(key);
  }

  // Returns the logit of a scaled product q.k, after cap, bias and mask.
  float Finish(float score, int64_t key) const {
    const AttentionOptions& options = *s_.options;
    if (!Visible(key)) return Masked();
    score = arithmetic_.logit(score, static_cast<float>(options.soft_cap),
                              Bias(key));
    if (s_.additive_mask.buffer == nullptr) return score;
    return score + RealAt(s_.additive_mask, b_, h_, t_, key);
  }

  float Added(int64_t key) const {
    const float bias = Bias(key);
    if (s_.additive_mask.buffer == nullptr) return bias;
    return bias + RealAt(s_.additive_mask, b_, h_, t_, key);
  }

  float Masked() const {
    return s_.options->masked_rows == MaskedRows::kMean
               ? static_cast<float>(kMaskValue)
               : kMinusInfinity;
  }

  // Returns 0 if dropout removes the weight of `key`, else the factor by which
  // the weight is multiplied.
  float Keep(int64_t key) const {
    const AttentionOptions& options = *s_.options;
    if (options.dropout <= 0) return 1;
    const bool keep = KeepsWeight(
        options.dropout_seed, b_ + s_.batch_offset, h_ + s_.head_offset,
        position_, IntegerAt(s_.key_positions, b_, key), options.dropout);
    return keep ? static_cast<float>(1 / (1 - options.dropout)) : 0;
  }

  // Processes keys [begin, begin + count) in the row's online softmax: adds
  // their weights to the sum, and their weighted values to the output.
  void Absorb(const float* scores, int64_t begin, int64_t count,
              SoftmaxState& state) const {
    const auto at = AsIndex((b_ * s_.heads() + h_) * s_.rows() + t_);
    float& max = state.max.real[at];
    float& sum = state.sum.real[at];
    const auto dim = AsIndex(value_dim_);
    const std::span<float> out(state.out.real.data() + at * dim, dim);
    float top = max;
    for (int64_t i = 0; i < count; ++i) {
      // Also true for a NaN, which then becomes the largest logit.
      if (!(scores[i] <= top)) top = scores[i];
    }
    top = arithmetic_.reference(top);
    if (top == kMinusInfinity) return;
    Rescale(top, max, sum, out);
    max = top;
    for (int64_t i = 0; i < count; ++i) {
      const float weight = std::exp(scores[i] - top);
      if (weight == 0) continue;
      arithmetic_.absorb(weight, weight * Keep(begin + i), Value(begin + i),
                         sum, out);
    }
  }

 private:
  bool InWindow(const Window& window, int64_t pk) const {
    return !(window.left && pk < position_ - *window.left) &&
           !(window.right && pk > position_ + *window.right);
  }

  bool SegmentsMeet(int64_t key) const {
    if (s_.query_segments == nullptr) return true;
    const int32_t id = IntegerAt(s_.query_segments, b_, t_);
    if (id < 0 || id != IntegerAt(s_.key_segments, b_, key)) return false;
    const auto& padding = s_.options->padding_segment;
    return !padding || *padding != id;
  }

  bool Unmasked(int64_t key) const {
    if (s_.mask.buffer != nullptr &&
        s_.mask.buffer->integers[AsIndex(Offset(s_.mask, b_, h_, t_, key))] ==
            0) {
      return false;
    }
    return s_.additive_mask.buffer == nullptr ||
           RealAt(s_.additive_mask, b_, h_, t_, key) >
               static_cast<float>(kMaskValue / 2);
  }

  float Bias(int64_t key) const {
    return s_.bias.buffer == nullptr ? 0 : RealAt(s_.bias, b_, h_, t_, key);
  }

  void Rescale(float top, float max, float& sum, std::span<float> out) const {
    if (max == kMinusInfinity) {
      sum = 0;
      std::fill(out.begin(), out.end(), 0.0f);
    } else {
      arithmetic_.rescale(max == top ? 1 : std::exp(max - top), sum, out);
    }
  }

  const LocalSlice& s_;
  int64_t b_, h_, t_;
  int64_t key_heads_, dim_, value_dim_;
  const Arithmetic& arithmetic_;
  int64_t key_head_;
  int64_t position_;
};

template <class Body>
void ForRows(const LocalSlice& slice, int64_t row_begin, int64_t row_end,
             Body body) {
  for (int64_t b = 0; b < slice.batch(); ++b) {
    for (int64_t h = 0; h < slice.heads(); ++h) {
      for (int64_t t = row_begin; t < row_end; ++t) {
        body(Row(slice, b, h, t), (b * slice.heads() + h) * slice.rows() + t);
      }
    }
  }
}

}  // namespace

SoftmaxState EmptyState(const LocalSlice& slice) {
  const Shape rows = {slice.batch(), slice.heads(), slice.rows()};
  SoftmaxState state;
  state.max = Buffer::Zeros(rows, Dtype::kF32);
  std::fill(state.max.real.begin(), state.max.real.end(), kMinusInfinity);
  state.sum = Buffer::Zeros(rows, Dtype::kF32);
  state.out = Buffer::Zeros({rows[0], rows[1], rows[2], slice.value->shape[3]},
                            Dtype::kF32);
  return state;
}

Buffer DotScores(const LocalSlice& slice) {
  Buffer out = Buffer::Zeros(
      {slice.batch(), slice.heads(), slice.rows(), slice.keys()}, Dtype::kF32);
  ForRows(slice, 0, slice.rows(), [&](const Row& row, int64_t at) {
    float* scores = out.real.data() + at * slice.keys();
    for (int64_t s = 0; s < slice.keys(); ++s) scores[s] = row.Score(s);
  });
  return out;
}

void FinishScores(const LocalSlice& slice, Buffer& scores) {
  ForRows(slice, 0, slice.rows(), [&](const Row& row, int64_t at) {
    float* line = scores.real.data() + at * slice.keys();
    for (int64_t s = 0; s < slice.keys(); ++s) {
      line[s] = row.Finish(line[s], s);
    }
  });
}

void AttendScores(const LocalSlice& slice, const Buffer& scores,
                  SoftmaxState& state) {
  ForRows(slice, 0, slice.rows(), [&](const Row& row, int64_t at) {
    row.Absorb(scores.real.data() + at * slice.keys(), 0, slice.keys(), state);
  });
}

void AttendTileByLoops(const LocalSlice& slice, const Tile& tile,
                       int64_t block_k, SoftmaxState& state) {
  block_k =
      std::max<int64_t>(1, std::min(block_k, tile.key_end - tile.key_begin));
  std::vector<float> scores(AsIndex(block_k));
  for (int64_t t = tile.row_begin; t < tile.row_end; ++t) {
    const Row row(slice, tile.batch, tile.head, t);
    for (int64_t k = tile.key_begin; k < tile.key_end; k += block_k) {
      const int64_t count = std::min(block_k, tile.key_end - k);
      for (int64_t i = 0; i < count; ++i) {
        scores[AsIndex(i)] = row.Visible(k + i)
                                 ? row.Finish(row.Score(k + i), k + i)
                                 : row.Masked();
      }
      row.Absorb(scores.data(), k, count, state);
    }
  }
}

bool VisibleAt(const LocalSlice& slice, int64_t b, int64_t h, int64_t t,
               int64_t key) {
  return Row(slice, b, h, t).Visible(key);
}

float AddedAt(const LocalSlice& slice, int64_t b, int64_t h, int64_t t,
              int64_t key) {
  return Row(slice, b, h, t).Added(key);
}

float KeepAt(const LocalSlice& slice, int64_t b, int64_t h, int64_t t,
             int64_t key) {
  return slice.options->dropout > 0 ? Row(slice, b, h, t).Keep(key) : 1;
}

void AddSinks(const Buffer& sinks, SoftmaxState& state,
              const Arithmetic& arithmetic) {
  const int64_t heads = state.max.shape[1], rows = state.max.shape[2];
  const int64_t dim = state.out.shape[3];
  for (int64_t i = 0; i < state.max.Elements(); ++i) {
    const auto at = AsIndex(i);
    const int64_t head = i / rows % heads;
    for (int64_t a = 0; a < sinks.shape[0]; ++a) {
      const float sink = sinks.real[AsIndex(a * heads + head)];
      if (sink == kMinusInfinity) continue;
      if (sink > state.max.real[at]) {
        const float factor = state.max.real[at] == kMinusInfinity
                                 ? 0
                                 : std::exp(state.max.real[at] - sink);
        state.max.real[at] = sink;
        state.sum.real[at] *= factor;
        for (int64_t d = 0; d < dim; ++d) {
          state.out.real[AsIndex(i * dim + d)] *= factor;
        }
      }
      arithmetic.absorb_sink(std::exp(sink - state.max.real[at]),
                             state.sum.real[at],
                             {state.out.real.data() + i * dim, AsIndex(dim)});
    }
  }
}

Buffer FinishState(const SoftmaxState& state, Dtype dtype,
                   const Arithmetic& arithmetic) {
  const Shape& s = state.out.shape;  // [B, H, T, Dv]
  Buffer out = Buffer::Zeros({s[0], s[2], s[1], s[3]}, dtype);
  for (int64_t b = 0; b < s[0]; ++b) {
    for (int64_t h = 0; h < s[1]; ++h) {
      for (int64_t t = 0; t < s[2]; ++t) {
        const int64_t row = (b * s[1] + h) * s[2] + t;
        const float sum = state.sum.real[AsIndex(row)];
        const float* from = state.out.real.data() + row * s[3];
        float* to = out.real.data() + ((b * s[2] + t) * s[1] + h) * s[3];
        for (int64_t d = 0; d < s[3]; ++d) {
          to[d] = sum == 0 ? 0 : arithmetic.store(dtype, from[d] / sum);
        }
      }
    }
  }
  return out;
}

Buffer LogSumExp(const SoftmaxState& state) {
  Buffer out = state.max;
  for (size_t i = 0; i < out.real.size(); ++i) {
    if (state.sum.real[i] > 0) out.real[i] += std::log(state.sum.real[i]);
  }
  return out;
}

// Begins and ends the online softmax of a row: creates an empty state, and at
// the end divides the output by the sum. A state without keys has max -inf.
//
// A head may have a sink, which is an extra logit that adds its weight to the
// sum but has no value. It can be added to the state before the division. If
// the sink is larger than max, the sum and the output are rescaled to the new
// max. For example:
//
//   (max 1, sum 1) with a sink of 3  ->  (max 3, sum e^-2 + 1 = 1.135)

namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

// Returns the factor exp(from - to) by which a state with maximum `from` is
// rescaled, or 0 for a state without keys.
float Weight(float from, float to) {
  return from == kNone ? 0.0f : std::exp(from - to);
}

// Prefetches the cache lines of an output row for writing. Output rows are
// often far apart, so the processor does not prefetch them by itself.
void PrefetchOutput(float* row, size_t dim) {
  constexpr size_t kLine = 16;  // floats of a cache line
  for (size_t i = 0; i < dim; i += kLine) __builtin_prefetch(row + i, 1);
}
constexpr int64_t kRowsAhead = 8;

}  // namespace

void ClearState(const AttentionSlice& slice, const AttentionState& state) {
  const int64_t rows = slice.heads * slice.query_rows;
  std::fill_n(state.max, rows, kNone);
  std::fill_n(state.sum, rows, 0.0f);
  std::fill_n(state.out, rows * slice.value_dim, 0.0f);
}

void FinishAttention(const AttentionSlice& slice, const AttentionState& state,
                     const float* sinks, float* out, int64_t out_head_stride,
                     int64_t out_row_stride, float* lse) {
  for (int64_t g = 0; g < slice.heads; ++g) {
    for (int64_t t = 0; t < slice.query_rows; ++t) {
      const int64_t row = g * slice.query_rows + t;
      float max = state.max[row];
      float sum = state.sum[row];
      float factor = 1;
      if (sinks != nullptr) {
        const float now = std::max(max, sinks[g]);
        factor = Weight(max, now);
        sum = sum * factor + Weight(sinks[g], now);
        max = now;
      }
      const auto dim = AsIndex(slice.value_dim);
      const float* const from = state.out + row * slice.value_dim;
      float* const to = out + g * out_head_stride + t * out_row_stride;
      if (t + kRowsAhead < slice.query_rows) {
        PrefetchOutput(to + kRowsAhead * out_row_stride, dim);
      }
      Mix(sum == 0 ? 0.0f : factor / sum, {from, dim}, 0, {}, {to, dim});
      if (lse != nullptr) lse[row] = sum == 0 ? kNone : std::log(sum) + max;
    }
  }
}

// Computes attention over the inputs that one device holds. The fast kernels
// are used if they have all features of the attention, otherwise the plain
// loops. The choice depends only on the options and on the arithmetic, which
// are the same on all devices. A sharding therefore changes neither the code
// that runs nor the bits of the result.
//
// The loops run for dropout and for arithmetic with injected faults.
// MaskedRows::kMean gives a row that sees no key the mean of all values. If the
// keys arrive in several parts, the loops run for this option too, because such
// rows are known only after the last part.
//
// The kernels must know which keys each query row attends to. They get either
// one interval of keys for each row, or one byte for each pair of row and key.
// Intervals suffice for causal masks, windows, lengths and starts, if the
// positions of the keys ascend by one. Segments, explicit masks and other
// orders of the keys need bytes. Both forms lead to the same bits, so devices
// may use different forms. For example, the mask is causal and the queries have
// positions 4 to 7:
//
//   key positions 0..7  ->  intervals [0, 5), [0, 6), [0, 7), [0, 8)
//   key positions 0 1 6 7 (zig-zag order)  ->  bytes

namespace {

bool NeedsLoops(const LocalSlice& slice) {
  return slice.options->masked_rows == MaskedRows::kMean || !InKernels(slice);
}

// The keys that each row of a tile attends to. Either `begin` and `end` hold an
// interval [begin, end) for each row, or `mask` holds a byte for each row and
// key, 0 for a masked key.
struct Sight {
  std::vector<int32_t> begin, end;
  std::vector<uint8_t> mask;
};

// Returns the position of the first key of `tile`, or 0 if the tile has no
// keys. Returns nullopt if the position is negative or the positions of the
// keys do not ascend by one.
std::optional<int64_t> FirstPosition(const LocalSlice& slice,
                                     const Tile& tile) {
  const int32_t* const p =
      slice.key_positions->integers.data() + tile.batch * slice.keys();
  const int64_t first = tile.key_begin < tile.key_end ? p[tile.key_begin] : 0;
  for (int64_t i = tile.key_begin; i < tile.key_end; ++i) {
    if (p[i] != first + i - tile.key_begin) return std::nullopt;
  }
  if (first < 0) return std::nullopt;
  return first;
}

bool SeesIntervals(const LocalSlice& slice) {
  return slice.query_segments == nullptr && slice.mask.buffer == nullptr &&
         slice.additive_mask.buffer == nullptr;
}

// Sets `sight.begin` and `sight.end`, the interval of keys that each row of the
// tile sees. Index 0 is the tile's first key, whose position is `first`.
void SeeIntervals(const LocalSlice& slice, const Tile& tile, int64_t first,
                  Sight& sight) {
  const AttentionOptions& options = *slice.options;
  const int64_t keys = tile.key_end - tile.key_begin;
  int64_t low = 0;
  int64_t high = keys;
  if (slice.key_lengths != nullptr) {
    high = std::min<int64_t>(
        high, slice.key_lengths->integers[AsIndex(tile.batch)] - first);
  }
  if (slice.key_starts != nullptr) {
    low = std::max<int64_t>(
        low, slice.key_starts->integers[AsIndex(tile.batch)] - first);
  }
  for (int64_t t = tile.row_begin; t < tile.row_end; ++t) {
    const int64_t q = slice.query_positions
                          ->integers[AsIndex(tile.batch * slice.rows() + t)] -
                      first;
    int64_t begin = low;
    int64_t end = high;
    if (options.causal) end = std::min(end, q + 1);
    if (options.window && options.window->left) {
      begin = std::max(begin, q - *options.window->left);
    }
    if (options.window && options.window->right) {
      end = std::min(end, q + *options.window->right + 1);
    }
    begin = std::clamp<int64_t>(begin, 0, keys);
    end = std::clamp<int64_t>(end, begin, keys);
    sight.begin.push_back(static_cast<int32_t>(begin));
    sight.end.push_back(static_cast<int32_t>(end));
  }
}

Sight See(const LocalSlice& slice, const Tile& tile) {
  Sight sight;
  if (SeesIntervals(slice)) {
    if (const auto first = FirstPosition(slice, tile)) {
      SeeIntervals(slice, tile, *first, sight);
      return sight;
    }
  }
  for (int64_t t = tile.row_begin; t < tile.row_end; ++t) {
    for (int64_t k = tile.key_begin; k < tile.key_end; ++k) {
      sight.mask.push_back(VisibleAt(slice, tile.batch, tile.head, t, k));
    }
  }
  return sight;
}

bool SameForHeads(const BroadcastView& view) {
  return view.buffer == nullptr || view.buffer->shape[1] == 1;
}

// The arguments of one kernel call, for query heads [tile.head, tile.head +
// heads), which all read the same key head.
struct HeadGroup {
  Sight sight;
  std::vector<float> added;
  AttentionSlice slice;
  AttentionState state;
};

void Describe(const LocalSlice& from, const Tile& tile, int64_t heads,
              SoftmaxState& state, HeadGroup& part) {
  const int64_t h = tile.head;
  const int64_t rows = tile.row_end - tile.row_begin;
  const int64_t keys = tile.key_end - tile.key_begin;
  const int64_t key_heads = from.key->shape[2];
  const int64_t key_row = (tile.batch * from.keys() + tile.key_begin);
  const int64_t key_head = from.key_head[AsIndex(h)];
  AttentionSlice& to = part.slice;
  to.heads = heads;
  to.query_rows = rows;
  to.key_rows = keys;
  to.head_dim = from.query->shape[3];
  to.value_dim = from.value->shape[3];
  to.query = from.query->real.data() +
             ((tile.batch * from.rows() + tile.row_begin) * from.heads() + h) *
                 to.head_dim;
  to.query_head_stride = to.head_dim;
  to.query_row_stride = from.heads() * to.head_dim;
  to.key =
      from.key->real.data() + (key_row * key_heads + key_head) * to.head_dim;
  to.key_row_stride = key_heads * to.head_dim;
  to.value =
      from.value->real.data() + (key_row * key_heads + key_head) * to.value_dim;
  to.value_row_stride = key_heads * to.value_dim;
  to.scale = from.scale;
  to.soft_cap = static_cast<float>(from.options->soft_cap);
  if (!part.sight.mask.empty()) {
    to.mask = part.sight.mask.data();
    to.mask_row_stride = keys;
  } else {
    to.begin = part.sight.begin.data();
    to.end = part.sight.end.data();
  }
  if (from.bias.buffer != nullptr || from.additive_mask.buffer != nullptr) {
    for (int64_t g = 0; g < heads; ++g) {
      for (int64_t t = tile.row_begin; t < tile.row_end; ++t) {
        for (int64_t k = tile.key_begin; k < tile.key_end; ++k) {
          part.added.push_back(AddedAt(from, tile.batch, h + g, t, k));
        }
      }
    }
    to.bias = part.added.data();
    to.bias_head_stride = rows * keys;
    to.bias_row_stride = keys;
  }
  const int64_t at =
      (tile.batch * from.heads() + h) * from.rows() + tile.row_begin;
  part.state = {state.max.real.data() + at, state.sum.real.data() + at,
                state.out.real.data() + at * to.value_dim};
}

// Computes the attention of the query rows of `tile` over the keys of `tile`,
// for query heads tile.head to `head_end` - 1. Accumulates the result in the
// online-softmax states of the rows.
void AttendHeads(const LocalSlice& slice, const Tile& tile, int64_t head_end,
                 SoftmaxState& state) {
  const bool whole = tile.row_begin == 0 && tile.row_end == slice.rows();
  const bool alike =
      SameForHeads(slice.mask) && SameForHeads(slice.additive_mask);
  Scratch scratch;
  std::vector<HeadGroup> parts;
  parts.reserve(AsIndex(head_end - tile.head));
  for (int64_t h = tile.head; h < head_end;) {
    // The states of all rows of one head come before those of the next head.
    // Only a tile with all query rows therefore has the states of several heads
    // in one contiguous range. For other tiles, one head is computed at a time.
    int64_t heads = 1;
    while (whole && alike && h + heads < head_end &&
           slice.key_head[AsIndex(h + heads)] == slice.key_head[AsIndex(h)]) {
      ++heads;
    }
    Tile own = tile;
    own.head = h;
    HeadGroup& part = parts.emplace_back();
    part.sight = alike && h != tile.head ? parts[0].sight : See(slice, own);
    Describe(slice, own, heads, state, part);
    if (!slice.one_row) {
      PrefillAttention(part.slice, part.state, scratch);
      if (h != tile.head) parts.pop_back();
    }
    h += heads;
  }
  if (!slice.one_row) return;
  std::vector<AttentionSlice> slices;
  std::vector<AttentionState> states;
  for (const HeadGroup& part : parts) {
    slices.push_back(part.slice);
    states.push_back(part.state);
  }
  DecodeAttention(slices, states, scratch);
}

bool SeesAny(const LocalSlice& slice, int64_t b, int64_t h, int64_t t) {
  for (int64_t s = 0; s < slice.keys(); ++s) {
    if (VisibleAt(slice, b, h, t, s)) return true;
  }
  return false;
}

// Implements MaskedRows::kMean: a row that sees no key attends to all keys with
// equal weights, as if all logits were the same finite number. A row that sees
// keys, but only with logit -inf because of the bias, keeps a sum of 0, so its
// output is 0.
void AttendToAll(const LocalSlice& slice, SoftmaxState& state) {
  const int64_t rows = slice.rows(), dim = slice.value->shape[3];
  const int64_t key_heads = slice.value->shape[2], keys = slice.keys();
  for (int64_t i = 0; i < state.sum.Elements(); ++i) {
    if (state.sum.real[AsIndex(i)] > 0) continue;
    const int64_t b = i / rows / slice.heads(), h = i / rows % slice.heads();
    if (SeesAny(slice, b, h, i % rows)) continue;
    const int64_t head = slice.key_head[AsIndex(h)];
    float* const out = state.out.real.data() + i * dim;
    for (int64_t s = 0; s < keys; ++s) {
      const float* const v =
          slice.value->real.data() + ((b * keys + s) * key_heads + head) * dim;
      for (int64_t d = 0; d < dim; ++d) out[d] += v[d];
    }
    state.max.real[AsIndex(i)] = static_cast<float>(kMaskValue);
    state.sum.real[AsIndex(i)] = static_cast<float>(keys);
  }
}

}  // namespace

bool InKernels(const LocalSlice& slice) {
  return slice.options->dropout == 0 && slice.arithmetic->InKernels();
}

void AttendRows(const LocalSlice& slice, SoftmaxState& state) {
  LocalSlice own = slice;
  AttentionOptions options = *slice.options;
  options.masked_rows = MaskedRows::kZero;
  own.options = &options;
  AttendKeys(own, 0, own.keys(), own.keys(), state);
  if (slice.options->masked_rows == MaskedRows::kMean) {
    AttendToAll(slice, state);
  }
}

void AttendTile(const LocalSlice& slice, const Tile& tile, int64_t block_k,
                SoftmaxState& state) {
  if (NeedsLoops(slice)) {
    AttendTileByLoops(slice, tile, block_k, state);
  } else {
    AttendHeads(slice, tile, tile.head + 1, state);
  }
}

void AttendBlock(const LocalSlice& slice, int64_t row_begin, int64_t row_end,
                 int64_t begin, int64_t end, int64_t block_k,
                 SoftmaxState& state) {
  const bool loops = NeedsLoops(slice);
  for (int64_t b = 0; b < slice.batch(); ++b) {
    if (!loops) {
      AttendHeads(slice, {b, 0, row_begin, row_end, begin, end}, slice.heads(),
                  state);
      continue;
    }
    for (int64_t h = 0; h < slice.heads(); ++h) {
      AttendTileByLoops(slice, {b, h, row_begin, row_end, begin, end}, block_k,
                        state);
    }
  }
}

void AttendKeys(const LocalSlice& slice, int64_t begin, int64_t end,
                int64_t block_k, SoftmaxState& state) {
  AttendBlock(slice, 0, slice.rows(), begin, end, block_k, state);
}

}  // namespace shardc::exec
