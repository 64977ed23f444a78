// For every row (b, i, h):
//
//   s_j = cap(scale * q_i . k_j) + bias + additive mask,  or masked
//   m   = max over s_j and the sinks
//   l   = sum exp(s_j - m) + sum exp(sink - m)
//   o   = sum keep_j * exp(s_j - m) * v_j / l,  keep_j = 0 or 1/(1 - dropout)
//
// With masked_rows = mean a masked s_j is kMaskValue, so that a row without
// any key has equal weights; with zero it is -inf, exp(-inf) = 0, and a row
// without any key or sink is zeros.
//
// Example: two keys with logits 0 and 0 and one sink of 0 give weights 1/3,
// 1/3, and an output of (v_0 + v_1)/3.
//
// Cost: B*T*H*S*(D + Dv), no blocking. Tested in
// tests/exec/reference_test.cc by hand-made cases and properties, and against
// recorded outputs of other implementations in tests/vectors/numeric.cc.
#include "exec/attention/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "exec/machine/random.h"

namespace shardc::exec {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string ShapeText(const DenseArray& x) {
  std::string text = "[";
  for (size_t i = 0; i < x.shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(x.shape[i]);
  }
  return text + "]";
}

struct Sizes {
  int64_t batch, queries, keys, heads, key_heads, dim, value_dim, group;
};

bool OneOf(int64_t size, std::initializer_list<int64_t> allowed) {
  return std::find(allowed.begin(), allowed.end(), size) != allowed.end();
}

bool Broadcasts(const DenseArray& x, const Sizes& n) {
  if (x.shape.empty()) return true;
  return x.rank() == 4 && OneOf(x.dim(0), {1, n.batch}) &&
         OneOf(x.dim(1), {1, n.heads, n.key_heads}) &&
         OneOf(x.dim(2), {1, n.queries}) && x.dim(3) == n.keys;
}

bool Counts(const std::vector<int64_t>& x, int64_t count) {
  return x.empty() || static_cast<int64_t>(x.size()) == count;
}

std::optional<Sizes> SizesOf(const ReferenceInputs& in, std::string& why) {
  const DenseArray &q = in.query, &k = in.key, &v = in.value;
  const std::string shapes = "query " + ShapeText(q) + ", key " + ShapeText(k) +
                             ", value " + ShapeText(v);
  if (q.rank() != 4 || k.rank() != 4 || v.rank() != 4) {
    why = shapes + ": rank 4 is needed";
    return std::nullopt;
  }
  Sizes n{q.dim(0), q.dim(1), k.dim(1), q.dim(2),
          k.dim(2), q.dim(3), v.dim(3), 1};
  if (k.dim(0) != n.batch || v.dim(0) != n.batch || v.dim(1) != n.keys ||
      v.dim(2) != n.key_heads || k.dim(3) != n.dim) {
    why = shapes + " do not fit each other";
    return std::nullopt;
  }
  if (n.key_heads < 1 || n.heads % n.key_heads != 0) {
    why = std::to_string(n.heads) + " query heads are no multiple of " +
          std::to_string(n.key_heads) + " key heads";
    return std::nullopt;
  }
  n.group = n.heads / n.key_heads;
  return n;
}

bool ExtrasFit(const ReferenceInputs& in, const Sizes& n, std::string& why) {
  if (!Broadcasts(in.bias, n)) why = "bias " + ShapeText(in.bias);
  if (!Broadcasts(in.mask, n)) why = "mask " + ShapeText(in.mask);
  if (!Broadcasts(in.additive_mask, n)) {
    why = "additive mask " + ShapeText(in.additive_mask);
  }
  if (!in.sinks.shape.empty() &&
      (in.sinks.rank() != 2 || in.sinks.dim(1) != n.heads)) {
    why = "sinks " + ShapeText(in.sinks);
  }
  const int64_t q_rows = n.batch * n.queries, k_rows = n.batch * n.keys;
  if (!Counts(in.query_segments, q_rows) || !Counts(in.key_segments, k_rows) ||
      in.query_segments.empty() != in.key_segments.empty()) {
    why = "segment ids";
  }
  if (!Counts(in.query_positions, q_rows) ||
      !Counts(in.key_positions, k_rows)) {
    why = "positions";
  }
  if (!Counts(in.key_lengths, n.batch) || !Counts(in.key_starts, n.batch)) {
    why = "lengths";
  }
  if (why.empty()) return true;
  why += " do not fit query " + ShapeText(in.query) + " and key " +
         ShapeText(in.key);
  return false;
}

// [.., .., .., all].
const double* Row(const DenseArray& x, int64_t a, int64_t b, int64_t c) {
  return x.data.data() + ((a * x.dim(1) + b) * x.dim(2) + c) * x.dim(3);
}

// Four sums side by side: one would wait for itself at every step.
double Dot(const double* a, const double* b, int64_t n) {
  double sum[4] = {};
  int64_t d = 0;
  for (; d + 4 <= n; d += 4) {
    for (int64_t i = 0; i < 4; ++i) sum[i] += a[d + i] * b[d + i];
  }
  for (; d < n; ++d) sum[0] += a[d] * b[d];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

class Dense {
 public:
  Dense(const ReferenceInputs& in, const AttentionOptions& options, Sizes n)
      : in_(in), options_(options), n_(n), scale_(options.ScaleFor(n.dim)) {}

  ReferenceResult Run(bool keep_weights) {
    out_.output =
        DenseArray::Zeros({n_.batch, n_.queries, n_.heads, n_.value_dim});
    out_.lse = DenseArray::Zeros({n_.batch, n_.queries, n_.heads, 1});
    if (keep_weights) {
      out_.weights =
          DenseArray::Zeros({n_.batch, n_.heads, n_.queries, n_.keys});
    }
    for (int64_t b = 0; b < n_.batch; ++b) {
      for (int64_t i = 0; i < n_.queries; ++i) {
        for (int64_t h = 0; h < n_.heads; ++h) Attend(b, i, h);
      }
    }
    return std::move(out_);
  }

 private:
  int64_t KeyLength(int64_t b) const {
    return in_.key_lengths.empty() ? n_.keys : in_.key_lengths[b];
  }

  int64_t QueryPosition(int64_t b, int64_t i) const {
    if (!in_.query_positions.empty()) {
      return in_.query_positions[b * n_.queries + i];
    }
    return KeyLength(b) - n_.queries + i;
  }

  int64_t KeyPosition(int64_t b, int64_t j) const {
    return in_.key_positions.empty() ? j : in_.key_positions[b * n_.keys + j];
  }

  bool SegmentsMeet(int64_t b, int64_t i, int64_t j) const {
    if (in_.query_segments.empty()) return true;
    const int64_t id = in_.query_segments[b * n_.queries + i];
    if (id != in_.key_segments[b * n_.keys + j] || id < 0) return false;
    return id != options_.padding_segment;
  }

  // One value for all heads, for each key head or for each query head.
  double Broadcast(const DenseArray& x, int64_t b, int64_t h, int64_t i,
                   int64_t j) const {
    if (x.dim(1) == n_.key_heads) h /= n_.group;
    return x.At(x.dim(0) == 1 ? 0 : b, x.dim(1) == 1 ? 0 : h,
                x.dim(2) == 1 ? 0 : i, j);
  }

  bool MayAttend(int64_t b, int64_t h, int64_t i, int64_t j) const {
    const int64_t pq = QueryPosition(b, i), pk = KeyPosition(b, j);
    const int64_t start = in_.key_starts.empty() ? 0 : in_.key_starts[b];
    if (pk < 0 || pk < start || pk >= KeyLength(b)) return false;
    if (options_.causal && pk > pq) return false;
    if (options_.window) {
      const Window& window = *options_.window;
      if (window.left && pk < pq - *window.left) return false;
      if (window.right && pk > pq + *window.right) return false;
    }
    if (!SegmentsMeet(b, i, j)) return false;
    if (!in_.mask.empty() && Broadcast(in_.mask, b, h, i, j) == 0) {
      return false;
    }
    return in_.additive_mask.empty() ||
           Broadcast(in_.additive_mask, b, h, i, j) > kMaskValue / 2;
  }

  double Logit(int64_t b, int64_t h, int64_t i, int64_t j) const {
    double s = scale_ * Dot(Row(in_.query, b, i, h),
                            Row(in_.key, b, j, h / n_.group), n_.dim);
    if (options_.soft_cap > 0) {
      s = options_.soft_cap * std::tanh(s / options_.soft_cap);
    }
    if (!in_.bias.empty()) s += Broadcast(in_.bias, b, h, i, j);
    if (!in_.additive_mask.empty()) {
      s += Broadcast(in_.additive_mask, b, h, i, j);
    }
    return s;
  }

  void Attend(int64_t b, int64_t i, int64_t h) {
    const double masked =
        options_.masked_rows == MaskedRows::kMean ? kMaskValue : -kInfinity;
    std::vector<double> s(n_.keys);
    double m = -kInfinity;
    for (int64_t j = 0; j < n_.keys; ++j) {
      s[j] = MayAttend(b, h, i, j) ? Logit(b, h, i, j) : masked;
      m = std::max(m, s[j]);
    }
    const int64_t sinks = in_.sinks.empty() ? 0 : in_.sinks.dim(0);
    for (int64_t a = 0; a < sinks; ++a) {
      m = std::max(m, in_.sinks.data[a * n_.heads + h]);
    }
    double l = 0;
    for (int64_t j = 0; j < n_.keys && m > -kInfinity; ++j) {
      l += std::exp(s[j] - m);
    }
    for (int64_t a = 0; a < sinks && m > -kInfinity; ++a) {
      l += std::exp(in_.sinks.data[a * n_.heads + h] - m);
    }
    out_.lse.At(b, i, h, 0) = l > 0 ? m + std::log(l) : -kInfinity;
    if (l > 0) Combine(b, i, h, s, m, l);
  }

  void Combine(int64_t b, int64_t i, int64_t h, const std::vector<double>& s,
               double m, double l) {
    double* const o = &out_.output.At(b, i, h, 0);
    for (int64_t j = 0; j < n_.keys; ++j) {
      double weight = std::exp(s[j] - m) / l;
      if (!out_.weights.empty()) out_.weights.At(b, h, i, j) = weight;
      if (options_.dropout > 0) {
        const bool keep = KeepsWeight(options_.dropout_seed, b + in_.first_row,
                                      h + in_.first_head, QueryPosition(b, i),
                                      KeyPosition(b, j), options_.dropout);
        weight = keep ? weight / (1 - options_.dropout) : 0;
      }
      if (weight == 0) continue;  // what nobody attends to may be infinite
      const double* const v = Row(in_.value, b, j, h / n_.group);
      for (int64_t d = 0; d < n_.value_dim; ++d) o[d] += weight * v[d];
    }
  }

  const ReferenceInputs& in_;
  const AttentionOptions& options_;
  Sizes n_;
  double scale_;
  ReferenceResult out_;
};

}  // namespace

double AttentionOptions::ScaleFor(int64_t head_dim) const {
  if (scale) return *scale;
  return head_dim > 0 ? 1 / std::sqrt(static_cast<double>(head_dim)) : 1;
}

std::optional<ReferenceResult> ReferenceAttention(
    const ReferenceInputs& in, const AttentionOptions& options,
    std::string& why, bool keep_weights) {
  const std::optional<Sizes> sizes = SizesOf(in, why);
  if (!sizes || !ExtrasFit(in, *sizes, why)) return std::nullopt;
  return Dense(in, options, *sizes).Run(keep_weights);
}

std::optional<DenseArray> SinksOf(const DenseArray& aux, int64_t heads,
                                  int64_t key_heads, std::string& why) {
  const bool by_head = aux.rank() == 1 && aux.dim(0) == heads;
  if (!by_head &&
      (aux.rank() < 1 || aux.rank() > 2 || aux.shape.back() != key_heads)) {
    why = "softmax_aux " + ShapeText(aux) + " is neither [" +
          std::to_string(heads) + "] nor [sinks, " + std::to_string(key_heads) +
          "]";
    return std::nullopt;
  }
  const int64_t width = aux.shape.back();
  const int64_t rows = aux.rank() == 1 ? 1 : aux.dim(0);
  DenseArray out = DenseArray::Zeros({rows, heads});
  for (int64_t a = 0; a < rows; ++a) {
    for (int64_t h = 0; h < heads; ++h) {
      out.data[a * heads + h] = aux.data[a * width + h / (heads / width)];
    }
  }
  return out;
}

}  // namespace shardc::exec
