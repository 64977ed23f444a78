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

#include "exec/machine/random.h"
#include "source/index.h"

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

}  // namespace shardc::exec
