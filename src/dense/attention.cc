// Attention by its definition. Each query row attends to the keys that its
// masks let it see, and its output is the sum of their values, weighted by the
// softmax of the scores. Rotary position embeddings of queries and keys come
// first, with their scaled frequencies.
#include "dense/attention.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>
#include <vector>

#include "dense/array.h"
#include "source/list.h"
#include "source/size.h"

namespace shardc::dense {
namespace {

// Computes rotary position embeddings. The elements of a head form pairs. Pair
// i at position p is a vector (x, y), which is rotated by the angle a = p *
// base^(-2i/dim):
//
//   x cos a - y sin a,  y cos a + x sin a
//
// For example, with dim 4 and base 100, pair 0 at position 3 is rotated by 3
// radians, and pair 1 by 0.3.
//
// A model whose context was extended has lower frequencies (angles per
// position). kLinear divides all frequencies by `factor`, and kDynamic
// increases the base. kYarn and kLlama3 divide only low frequencies, which make
// few turns over the original length. They keep high frequencies, and
// interpolate in between.

constexpr double kFullCircle = 2 * 3.14159265358979323846;

// Interpolates between the frequency f (if `keep` is 1) and f / factor (if
// `keep` is 0).
double Between(double f, double factor, double keep) {
  keep = std::clamp(keep, 0.0, 1.0);
  return keep * f + (1 - keep) * f / factor;
}

// Returns the index i, which may be a fraction, of the frequency base^(-2i/dim)
// that makes `turns` turns over `length` positions.
double NumberOf(double turns, double length, double base, double dim) {
  return dim / 2 * std::log(length / (kFullCircle * turns)) / std::log(base);
}

double YarnKeeps(double i, double dim, const Rope& rope) {
  double first =
      NumberOf(rope.fast_turns, rope.original_length, rope.base, dim);
  double last = NumberOf(rope.slow_turns, rope.original_length, rope.base, dim);
  if (rope.rounds_outwards) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, dim - 1);
  if (first == last) last += 0.001;
  return 1 - (i - first) / (last - first);
}

double Llama3Keeps(double f, const Rope& rope) {
  const double parts = rope.original_length * f / kFullCircle;
  return (parts - rope.low_part) / (rope.high_part - rope.low_part);
}

double DynamicBase(double dim, double length, const Rope& rope) {
  const double original =
      rope.original_length > 0 ? rope.original_length : length;
  if (length <= original) return rope.base;
  const double more = rope.factor * length / original - (rope.factor - 1);
  return rope.base * std::pow(more, dim / (dim - 2));
}

}  // namespace

Rotary::Rotary(int64_t dim, int64_t length, const Rope& rope, Pairs pairs)
    : pairs_(pairs) {
  const auto size = static_cast<double>(dim);
  const double base = rope.stretch == Stretch::kDynamic
                          ? DynamicBase(size, static_cast<double>(length), rope)
                          : rope.base;
  for (int64_t i = 0; i < dim / 2; ++i) {
    const auto number = static_cast<double>(i);
    double f = 1 / std::pow(base, 2 * number / size);
    if (rope.stretch == Stretch::kLinear) f = Between(f, rope.factor, 0);
    if (rope.stretch == Stretch::kYarn) {
      f = Between(f, rope.factor, YarnKeeps(number, size, rope));
    }
    if (rope.stretch == Stretch::kLlama3) {
      f = Between(f, rope.factor, Llama3Keeps(f, rope));
    }
    frequencies_.push_back(f);
  }
  if (rope.stretch == Stretch::kYarn && rope.factor > 1) {
    amplitude_ = 1 + std::log(rope.factor) / 10;
  }
  amplitude_ = rope.amplitude.value_or(amplitude_);
}

int64_t Rotary::Partner(int64_t d) const {
  const auto half = static_cast<int64_t>(frequencies_.size());
  if (pairs_ == Pairs::kHalves) return d < half ? d + half : d - half;
  return d % 2 == 0 ? d + 1 : d - 1;
}

void Rotary::Rotate(int64_t position, std::span<float> heads) const {
  const size_t half = frequencies_.size();
  const bool halves = pairs_ == Pairs::kHalves;
  for (size_t i = 0; i < half; ++i) {
    const double angle = static_cast<double>(position) * frequencies_[i];
    const auto sin = static_cast<float>(amplitude_ * std::sin(angle));
    const auto cos = static_cast<float>(amplitude_ * std::cos(angle));
    const size_t first = halves ? i : 2 * i;
    const size_t second = halves ? i + half : 2 * i + 1;
    for (size_t head = 0; head < heads.size(); head += 2 * half) {
      const float x = heads[head + first], y = heads[head + second];
      heads[head + first] = x * cos - y * sin;
      heads[head + second] = y * cos + x * sin;
    }
  }
}

Rotary::RotatedValue Rotary::RotatedElement(int64_t position,
                                            std::span<const float> head,
                                            int64_t d) const {
  const auto half = static_cast<int64_t>(frequencies_.size());
  const bool halves = pairs_ == Pairs::kHalves;
  const bool first = halves ? d < half : d % 2 == 0;
  const double f = frequencies_[AsIndex(halves ? d % half : d / 2)];
  const double angle = static_cast<double>(position) * f;
  const double x = head[AsIndex(d)], y = head[AsIndex(Partner(d))];
  const double rotated =
      x * std::cos(angle) + (first ? -y : y) * std::sin(angle);
  // `off` bounds the relative error: 4 roundoffs for sin, cos, the products and
  // their sum, and the error of the angle, which is computed in double.
  const double off = 4 * kUnit + std::fabs(angle) * 0x1p-50;
  return {amplitude_ * rotated,
          amplitude_ * off * (std::fabs(x) + std::fabs(y)) + 0x1p-149};
}

namespace {

struct Sizes {
  int64_t batch, queries, keys, heads, key_heads, dim, value_dim, group;
};

bool OneOf(int64_t size, std::initializer_list<int64_t> allowed) {
  return IsAmong(size, allowed);
}

bool Broadcasts(const Array& x, const Sizes& n) {
  if (x.shape.empty()) return true;
  return x.rank() == 4 && OneOf(x.dim(0), {1, n.batch}) &&
         OneOf(x.dim(1), {1, n.heads, n.key_heads}) &&
         OneOf(x.dim(2), {1, n.queries}) && x.dim(3) == n.keys;
}

bool HasCount(const std::vector<int64_t>& x, int64_t count) {
  return x.empty() || static_cast<int64_t>(x.size()) == count;
}

std::optional<Sizes> SizesOf(const Inputs& in, std::string& why) {
  const Array &q = in.query, &k = in.key, &v = in.value;
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

bool SinksFit(const Inputs& in, const Sizes& n, std::string& why) {
  const Array& sinks = in.sinks;
  if (sinks.shape.empty()) return true;
  if (sinks.rank() == 1 && sinks.dim(0) == n.heads) return true;
  if (sinks.rank() <= 2 && sinks.shape.back() == n.key_heads) return true;
  why = "softmax_aux " + ShapeText(sinks) + " is neither [" +
        std::to_string(n.heads) + "] nor [sinks, " +
        std::to_string(n.key_heads) + "]";
  return false;
}

bool BlocksFit(const Inputs& in, const Sizes& n) {
  const Array& x = in.blocks;
  if (x.shape.empty()) return true;
  const auto blocks = [](int64_t length, int64_t size) {
    return (length + size - 1) / size;
  };
  return x.rank() == 4 && OneOf(x.dim(0), {1, n.batch}) &&
         OneOf(x.dim(1), {1, n.heads}) && in.block_rows > 0 &&
         in.block_keys > 0 && x.dim(2) == blocks(n.queries, in.block_rows) &&
         x.dim(3) == blocks(n.keys, in.block_keys);
}

bool ExtrasFit(const Inputs& in, const Sizes& n, std::string& why) {
  if (!SinksFit(in, n, why)) return false;
  if (!Broadcasts(in.bias, n)) why = "bias " + ShapeText(in.bias);
  if (!Broadcasts(in.mask, n)) why = "mask " + ShapeText(in.mask);
  if (!Broadcasts(in.additive_mask, n)) {
    why = "additive mask " + ShapeText(in.additive_mask);
  }
  if (!in.value_up.empty() &&
      (in.value_up.rank() != 3 || in.value_up.dim(0) != n.heads ||
       in.value_up.dim(1) != n.value_dim)) {
    why = "values' matrices " + ShapeText(in.value_up);
  }
  if (!BlocksFit(in, n)) why = "blocks " + ShapeText(in.blocks);
  const int64_t q_rows = n.batch * n.queries, k_rows = n.batch * n.keys;
  if (!HasCount(in.query_segments, q_rows) ||
      !HasCount(in.key_segments, k_rows) ||
      in.query_segments.empty() != in.key_segments.empty()) {
    why = "segment ids";
  }
  if (!HasCount(in.query_positions, q_rows) ||
      !HasCount(in.key_positions, k_rows)) {
    why = "positions";
  }
  if (!HasCount(in.key_lengths, n.batch) || !HasCount(in.key_starts, n.batch)) {
    why = "lengths";
  }
  if (why.empty()) return true;
  why += " do not fit query " + ShapeText(in.query) + " and key " +
         ShapeText(in.key);
  return false;
}

// Returns the dot product, added up in four independent sums. With a single
// sum, each addition would have to wait for the one before it.
double Dot(const double* a, const double* b, int64_t n) {
  double sum[4] = {};
  int64_t d = 0;
  for (; d + 4 <= n; d += 4) {
    for (int64_t i = 0; i < 4; ++i) sum[i] += a[d + i] * b[d + i];
  }
  for (; d < n; ++d) sum[0] += a[d] * b[d];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

class Rows {
 public:
  Rows(const Inputs& in, const Options& options, Sizes n)
      : in_(in),
        options_(options),
        n_(n),
        scale_(options.ScaleOf(n.dim)),
        s_(AsIndex(n.keys)) {}

  Result Run(bool keep_weights) {
    out_.output = Array::Zeros({n_.batch, n_.queries, n_.heads, n_.value_dim});
    out_.lse = Array::Zeros({n_.batch, n_.queries, n_.heads, 1});
    if (keep_weights) {
      out_.weights = Array::Zeros({n_.batch, n_.heads, n_.queries, n_.keys});
    }
    for (int64_t b = 0; b < n_.batch; ++b) {
      for (int64_t i = 0; i < n_.queries; ++i) {
        for (int64_t h = 0; h < n_.heads; ++h) Attend(b, i, h);
      }
    }
    return std::move(out_);
  }

 private:
  bool SegmentsMeet(int64_t b, int64_t i, int64_t j) const {
    if (in_.query_segments.empty()) return true;
    const int64_t id = in_.query_segments[AsIndex(b * n_.queries + i)];
    if (id != in_.key_segments[AsIndex(b * n_.keys + j)] || id < 0)
      return false;
    return id != options_.padding_segment;
  }

  // Returns x[b, h, i, j] of a bias or mask. Dimensions of size 1 are
  // broadcast. If `x` has one entry for each key head, all query heads of a key
  // head read its entry.
  double Broadcast(const Array& x, int64_t b, int64_t h, int64_t i,
                   int64_t j) const {
    if (x.dim(1) == n_.key_heads) h /= n_.group;
    return x.At(x.dim(0) == 1 ? 0 : b, x.dim(1) == 1 ? 0 : h,
                x.dim(2) == 1 ? 0 : i, j);
  }

  bool InBlocks(int64_t b, int64_t h, int64_t i, int64_t j) const {
    const Array& x = in_.blocks;
    return x.At(x.dim(0) == 1 ? 0 : b, x.dim(1) == 1 ? 0 : h,
                i / in_.block_rows, j / in_.block_keys) != 0;
  }

  bool Sees(int64_t b, int64_t h, int64_t i, int64_t j) const {
    const int64_t pq = in_.QueryPosition(b, i), pk = in_.KeyPosition(b, j);
    const int64_t start =
        in_.key_starts.empty() ? 0 : in_.key_starts[AsIndex(b)];
    if (pk < 0 || pk < start || pk >= in_.KeyLength(b)) return false;
    if (options_.causal && pk > pq) return false;
    if (options_.left && pk < pq - *options_.left) return false;
    if (options_.right && pk > pq + *options_.right) return false;
    if (!SegmentsMeet(b, i, j)) return false;
    if (!in_.mask.empty() && Broadcast(in_.mask, b, h, i, j) == 0) {
      return false;
    }
    if (!in_.blocks.empty() && !InBlocks(b, h, i, j)) return false;
    return in_.additive_mask.empty() ||
           Broadcast(in_.additive_mask, b, h, i, j) > kMasked / 2;
  }

  double Logit(int64_t b, int64_t h, int64_t i, int64_t j) const {
    double s = scale_ * Dot(in_.query.Row(b, i, h),
                            in_.key.Row(b, j, h / n_.group), n_.dim);
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
    const double masked = options_.mean_of_masked ? kMasked : -kInfinity;
    double m = -kInfinity;
    for (int64_t j = 0; j < n_.keys; ++j) {
      s_[AsIndex(j)] = Sees(b, h, i, j) ? Logit(b, h, i, j) : masked;
      m = std::max(m, s_[AsIndex(j)]);
    }
    const int64_t sinks = in_.SinkCount();
    for (int64_t a = 0; a < sinks; ++a) m = std::max(m, in_.Sink(a, h));
    if (m == -kInfinity) {
      out_.lse.At(b, i, h, 0) = -kInfinity;
      return;
    }
    double l = 0;
    for (double& s : s_) {
      s = s == -kInfinity ? 0 : std::exp(s - m);
      l += s;
    }
    for (int64_t a = 0; a < sinks; ++a) l += std::exp(in_.Sink(a, h) - m);
    out_.lse.At(b, i, h, 0) = l > 0 ? m + std::log(l) : -kInfinity;
    if (l > 0) Combine(b, i, h, l);
  }

  void Combine(int64_t b, int64_t i, int64_t h, double l) {
    double* const o = &out_.output.At(b, i, h, 0);
    for (int64_t j = 0; j < n_.keys; ++j) {
      double weight = s_[AsIndex(j)] / l;
      if (!out_.weights.empty()) out_.weights.At(b, h, i, j) = weight;
      if (options_.dropout > 0) {
        const bool drops = Drops(options_.dropout_seed, b + in_.first_row,
                                 h + in_.first_head, in_.QueryPosition(b, i),
                                 in_.KeyPosition(b, j), options_.dropout);
        weight = drops ? 0 : weight / (1 - options_.dropout);
      }
      // Skip the product, because 0 times infinity would be NaN.
      if (weight == 0) continue;  // values of masked keys may be infinite
      const double* const v = in_.value.Row(b, j, h / n_.group);
      for (int64_t d = 0; d < n_.value_dim; ++d) o[d] += weight * v[d];
    }
  }

  const Inputs& in_;
  const Options& options_;
  Sizes n_;
  double scale_;
  std::vector<double> s_;  // the logits s_j of one row, and later exp(s_j - m)
  Result out_;
};

}  // namespace

double Options::ScaleOf(int64_t dim) const {
  if (scale) return *scale;
  return dim > 0 ? 1 / std::sqrt(static_cast<double>(dim)) : 1;
}

int64_t Inputs::KeyLength(int64_t b) const {
  return key_lengths.empty() ? key.dim(1) : key_lengths[AsIndex(b)];
}

int64_t Inputs::QueryPosition(int64_t b, int64_t i) const {
  const int64_t rows = query.dim(1);
  if (!query_positions.empty()) return query_positions[AsIndex(b * rows + i)];
  return KeyLength(b) - rows + i;
}

int64_t Inputs::KeyPosition(int64_t b, int64_t j) const {
  return key_positions.empty() ? j : key_positions[AsIndex(b * key.dim(1) + j)];
}

int64_t Inputs::SinkCount() const {
  if (sinks.shape.empty()) return 0;
  return sinks.rank() == 1 ? 1 : sinks.dim(0);
}

// `sinks` has a column for each query head, or a column for each key head. A
// column for a key head is shared by the query heads that read this key head.
// These query heads have consecutive numbers.
double Inputs::Sink(int64_t a, int64_t head) const {
  const int64_t width = sinks.shape.back();
  return sinks.data[AsIndex(a * width + head * width / query.dim(2))];
}

namespace {

// Multiplies the attention output `x` by the value matrix `up` of each head. In
// latent attention, `x` is a weighted sum of the tokens' latent rows, and the
// values of a head are the latent rows times `up`. The product is linear, so
// the result is the weighted sum of the head's values.
Array TimesUp(const Array& x, const Array& up) {
  Array out = Array::Zeros({x.dim(0), x.dim(1), x.dim(2), up.dim(2)});
  const int64_t rank = up.dim(1), dim = up.dim(2);
  const int64_t rows = x.dim(0) * x.dim(1) * x.dim(2);
  for (int64_t i = 0; i < rows; ++i) {
    const double* const head = up.data.data() + i % x.dim(2) * rank * dim;
    double* const to = out.data.data() + i * dim;
    for (int64_t r = 0; r < rank; ++r) {
      const double w = x.data[AsIndex(i * rank + r)];
      for (int64_t d = 0; d < dim; ++d) to[d] += w * head[r * dim + d];
    }
  }
  return out;
}

}  // namespace

std::optional<Result> Attention(const Inputs& in, const Options& options,
                                std::string& why, bool keep_weights) {
  const std::optional<Sizes> sizes = SizesOf(in, why);
  if (!sizes || !ExtrasFit(in, *sizes, why)) return std::nullopt;
  Result out = Rows(in, options, *sizes).Run(keep_weights);
  if (!in.value_up.empty()) out.output = TimesUp(out.output, in.value_up);
  return out;
}

double LargestLogit(const Inputs& in, const Options& options) {
  const Array &q = in.query, &k = in.key;
  const int64_t group = q.dim(2) / k.dim(2);
  double largest = 0;
  for (int64_t b = 0; b < q.dim(0); ++b) {
    for (int64_t t = 0; t < q.dim(1); ++t) {
      for (int64_t h = 0; h < q.dim(2); ++h) {
        for (int64_t s = 0; s < k.dim(1); ++s) {
          const double dot =
              Dot(q.Row(b, t, h), k.Row(b, s, h / group), q.dim(3));
          largest = std::max(largest, std::abs(dot));
        }
      }
    }
  }
  return largest * std::abs(options.ScaleOf(q.dim(3)));
}

// Computes the random number generator Philox 4x32-10 (J. Salmon et al., SC
// 2011). Each round changes the words a, b, c and d. First, a and c are
// multiplied by constants. The product of c gives the new a (its high half XOR
// b XOR a round key) and the new b (its low half). The product of a gives the
// new c (its high half XOR d XOR a round key) and the new d (its low half).
bool Drops(uint64_t seed, int64_t row, int64_t head, int64_t query, int64_t key,
           double rate) {
  constexpr uint64_t kWord = 0xffffffffu;
  uint64_t a = static_cast<uint64_t>(row) & kWord;
  uint64_t b = static_cast<uint64_t>(head) & kWord;
  uint64_t c = static_cast<uint64_t>(query) & kWord;
  uint64_t d = static_cast<uint64_t>(key) & kWord;
  for (uint64_t round = 0; round < 10; ++round) {
    const uint64_t low = ((seed & kWord) + round * 0x9E3779B9u) & kWord;
    const uint64_t high = ((seed >> 32) + round * 0xBB67AE85u) & kWord;
    const uint64_t of_a = a * 0xD2511F53u, of_c = c * 0xCD9E8D57u;
    a = (of_c >> 32) ^ b ^ low;
    c = (of_a >> 32) ^ d ^ high;
    b = of_c & kWord;
    d = of_a & kWord;
  }
  return static_cast<double>(a) < rate * 0x1p32;
}

// Computes latent attention, in which the keys and values of a head are
// products of a cached latent row and a matrix of the head. Expand() computes
// keys and values by this definition. Absorb() instead multiplies the query by
// the key matrix, and the value matrix is applied after the attention
// (Inputs::value_up). The result is the same, and needs fewer operations if
// there are few queries. All sums are in double, so their different order makes
// no visible difference.
//
// For example, with 2,048 cached tokens, a latent size of 512 and 128 heads
// whose keys and values have 128 dims each, Expand() needs 34e9
// multiplications. Attention of one query over absorbed rows needs 0.3e9.

namespace {

// The number of tokens that are multiplied by a head's matrix at the same time.
// Each row of the matrix is then read once for 16 tokens, not for every token.
constexpr int64_t kBlock = 16;

// Computes out[token, h] = c[token] . w[h] for all tokens and heads. Only the
// first w.dim(2) dims of `out` are set. The rows of `out` are far apart in
// memory, so the sums of a block are computed in a local buffer.
void Project(const Array& c, const Array& w, Array& out) {
  const int64_t tokens = c.dim(0) * c.dim(1), rank = c.dim(2);
  const int64_t heads = w.dim(0), dim = w.dim(2), row = out.dim(3);
  std::vector<double> sums(AsIndex(kBlock * dim));
  for (int64_t h = 0; h < heads; ++h) {
    const double* const head = w.data.data() + h * rank * dim;
    for (int64_t first = 0; first < tokens; first += kBlock) {
      const int64_t count = std::min(kBlock, tokens - first);
      std::fill(sums.begin(), sums.end(), 0.0);
      for (int64_t r = 0; r < rank; ++r) {
        const double* const up = head + r * dim;
        for (int64_t t = 0; t < count; ++t) {
          const double x = c.data[AsIndex((first + t) * rank + r)];
          double* const to = sums.data() + t * dim;
          for (int64_t d = 0; d < dim; ++d) to[d] += x * up[d];
        }
      }
      for (int64_t t = 0; t < count; ++t) {
        std::copy_n(sums.data() + t * dim, dim,
                    out.data.data() + ((first + t) * heads + h) * row);
      }
    }
  }
}

}  // namespace

Expanded Expand(const Latent& latent) {
  const int64_t batch = latent.latent.dim(0), keys = latent.latent.dim(1);
  const int64_t heads = latent.up_key.dim(0), nope = latent.up_key.dim(2);
  const int64_t rope = latent.rope_key.dim(2);
  Expanded out;
  out.key = Array::Zeros({batch, keys, heads, nope + rope});
  out.value = Array::Zeros({batch, keys, heads, latent.up_value.dim(2)});
  Project(latent.latent, latent.up_key, out.key);
  Project(latent.latent, latent.up_value, out.value);
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t s = 0; s < keys; ++s) {
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t d = 0; d < rope; ++d) {
          out.key.At(b, s, h, nope + d) =
              latent.rope_key.data[AsIndex((b * keys + s) * rope + d)];
        }
      }
    }
  }
  return out;
}

Absorbed Absorb(const Latent& latent, const Array& query) {
  const int64_t rows = query.dim(0) * query.dim(1), heads = query.dim(2);
  const int64_t rank = latent.up_key.dim(1), nope = latent.up_key.dim(2);
  const int64_t rope = latent.rope_key.dim(2);
  const int64_t batch = latent.latent.dim(0), keys = latent.latent.dim(1);
  Absorbed out;
  out.query = Array::Zeros({query.dim(0), query.dim(1), heads, rank + rope});
  for (int64_t i = 0; i < rows * heads; ++i) {
    const double* const from = query.data.data() + i * (nope + rope);
    double* const to = out.query.data.data() + i * (rank + rope);
    const double* const up =
        latent.up_key.data.data() + i % heads * rank * nope;
    for (int64_t r = 0; r < rank; ++r) {
      for (int64_t d = 0; d < nope; ++d) to[r] += from[d] * up[r * nope + d];
    }
    std::copy_n(from + nope, rope, to + rank);
  }
  out.key = Array::Zeros({batch, keys, 1, rank + rope});
  out.value = latent.latent;
  out.value.shape = {batch, keys, 1, rank};
  for (int64_t i = 0; i < batch * keys; ++i) {
    double* const to = out.key.data.data() + i * (rank + rope);
    std::copy_n(latent.latent.data.data() + i * rank, rank, to);
    std::copy_n(latent.rope_key.data.data() + i * rope, rope, to + rank);
  }
  return out;
}

double ExpandingTakes(const Latent& latent) {
  const auto tokens =
      static_cast<double>(latent.latent.dim(0) * latent.latent.dim(1));
  return tokens * static_cast<double>(latent.up_key.data.size() +
                                      latent.up_value.data.size());
}

bool WorthAbsorbing(const Latent& latent, int64_t queries) {
  constexpr double kSeconds = 4e9;
  const double expanding = ExpandingTakes(latent);
  const auto heads = static_cast<double>(latent.up_key.dim(0));
  const auto width =
      static_cast<double>(2 * latent.up_key.dim(1) + latent.rope_key.dim(2));
  const auto keys = static_cast<double>(latent.latent.dim(1));
  return expanding > kSeconds &&
         static_cast<double>(queries) * heads * keys * width < expanding;
}

}  // namespace shardc::dense
