// Computes attention with quantised matmuls and with a softmax in 16 bits. The
// formulas are in narrow.h.
//
// In a quantised matmul, groups of numbers share a step, and each number is
// rounded to a multiple of its group's step. For queries and keys, a group is
// the vector of one token and head. For values, a group is one dim of all keys
// of a block, such as dim 5 of 256 keys. The step is computed from the largest
// magnitude in the group. If the head dimension is sharded, the largest
// magnitudes are first all-reduced, so that all devices use the same steps.
//
// The matmul then multiplies integers and adds the products as integers. The
// devices' partial sums are integers too, so adding them does not round. For
// example:
//
//   [1, -0.5] to 8 bits: the step is 1 / 127.5; 1 becomes 127, the largest
//   integer, and -0.5 becomes -64
//
// A softmax in 16 bits processes all keys of a row at once. It rounds the
// logits, their differences from the maximum, the exponentials, their sum and
// the quotients.
#include "exec/attention/narrow.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "exec/kernels/arithmetic.h"
#include "floats/convert.h"
#include "source/size.h"

namespace shardc::exec {
namespace {

// Returns the rows of x [B, L, N, D] as integers of `bits` bits. `largest` [B,
// L, N] holds the largest magnitude of each row.
std::vector<int32_t> QuantizeOperandRows(const Buffer& x, const Buffer& largest,
                                         int bits) {
  const int64_t dim = x.shape[3];
  std::vector<int32_t> out(x.real.size());
  for (int64_t row = 0; row < x.Elements() / dim; ++row) {
    const double step = QuantisedStep(double{largest.real[AsIndex(row)]}, bits);
    for (int64_t i = row * dim; i < (row + 1) * dim; ++i) {
      out[AsIndex(i)] = RoundToBits(double{x.real[AsIndex(i)]}, step, bits);
    }
  }
  return out;
}

// Calls body(at, query_row, key_row) for each pair of query and key. `at` is
// the offset of the pair's score in [B, H, T, S]. query_row and key_row are
// offsets in [B, T, H] of the query and in [B, S, K] of the key.
template <class Body>
void ForScores(const LocalSlice& slice, Body body) {
  const int64_t key_heads = slice.key->shape[2];
  int64_t at = 0;
  for (int64_t b = 0; b < slice.batch(); ++b) {
    for (int64_t h = 0; h < slice.heads(); ++h) {
      for (int64_t t = 0; t < slice.rows(); ++t) {
        const int64_t q = (b * slice.rows() + t) * slice.heads() + h;
        for (int64_t s = 0; s < slice.keys(); ++s, ++at) {
          body(at, q,
               (b * slice.keys() + s) * key_heads + slice.key_head[AsIndex(h)]);
        }
      }
    }
  }
}

// The values of one key head of one batch row as integers. Each block of keys
// has its own quantisation step in each dim.
struct Values {
  std::vector<int32_t> integers;  // [S, Dv]
  std::vector<double> step;       // [blocks, Dv]
};

Values QuantizeValues(const LocalSlice& slice, int64_t b, int64_t head,
                      int64_t block, int bits) {
  const int64_t keys = slice.keys(), dim = slice.value->shape[3];
  const int64_t heads = slice.value->shape[2];
  const auto value = [&](int64_t s, int64_t d) {
    return double{
        slice.value->real[AsIndex(((b * keys + s) * heads + head) * dim + d)]};
  };
  Values out;
  out.integers.resize(AsIndex(keys * dim));
  for (int64_t begin = 0; begin < keys; begin += block) {
    const int64_t end = std::min(begin + block, keys);
    for (int64_t d = 0; d < dim; ++d) {
      double largest = 0;
      for (int64_t s = begin; s < end; ++s) {
        const double size = std::fabs(value(s, d));
        if (!(size <= largest)) largest = size;
        if (std::isnan(largest)) break;  // largest stays NaN
      }
      const double step = QuantisedStep(largest, bits);
      out.step.push_back(step);
      for (int64_t s = begin; s < end; ++s) {
        out.integers[AsIndex(s * dim + d)] =
            RoundToBits(value(s, d), step, bits);
      }
    }
  }
  return out;
}

// Multiplies a query's softmax weights by the values of its key head.
class RowProduct {
 public:
  RowProduct(const LocalSlice& slice, const Narrow& narrow, int64_t block,
             int64_t b, int64_t head)
      : narrow_(narrow),
        block_(block),
        dim_(slice.value->shape[3]),
        from_(slice.value->real.data() +
              (b * slice.keys() * slice.value->shape[2] + head) * dim_),
        stride_(slice.value->shape[2] * dim_) {
    if (narrow.bits > 0) {
      values_ = QuantizeValues(slice, b, head, block, narrow.bits);
    }
  }

  // Adds the product of `weights` and values to `out`, for the block of keys
  // that starts at key `begin`.
  void Add(std::span<const float> weights, int64_t begin, float* out) const {
    if (narrow_.bits == 0) {
      for (size_t i = 0; i < weights.size(); ++i) {
        if (weights[i] == 0) continue;
        const float* value =
            from_ + (begin + static_cast<int64_t>(i)) * stride_;
        for (int64_t d = 0; d < dim_; ++d) out[d] += weights[i] * value[d];
      }
      return;
    }
    const double step =
        QuantisedStep(double{LargestMagnitude(weights)}, narrow_.bits);
    std::vector<int64_t> sums(AsIndex(dim_), 0);
    for (size_t i = 0; i < weights.size(); ++i) {
      const int64_t w = RoundToBits(double{weights[i]}, step, narrow_.bits);
      if (w == 0) continue;
      const int32_t* value =
          values_.integers.data() + (begin + static_cast<int64_t>(i)) * dim_;
      for (int64_t d = 0; d < dim_; ++d) sums[AsIndex(d)] += w * value[d];
    }
    const double* steps = values_.step.data() + begin / block_ * dim_;
    for (int64_t d = 0; d < dim_; ++d) {
      out[d] += static_cast<float>(static_cast<double>(sums[AsIndex(d)]) *
                                   step * steps[d]);
    }
  }

 private:
  const Narrow& narrow_;
  int64_t block_, dim_;
  const float* from_;
  int64_t stride_;
  Values values_;
};

}  // namespace

Buffer LargestOfRows(const Buffer& x, const Arithmetic& arithmetic) {
  Buffer out = Buffer::Zeros({x.shape[0], x.shape[1], x.shape[2]}, Dtype::kF32);
  const auto dim = AsIndex(x.shape[3]);
  for (size_t i = 0; i < out.real.size(); ++i) {
    out.real[i] = arithmetic.largest({x.real.data() + i * dim, dim});
  }
  return out;
}

Buffer IntegerScores(const LocalSlice& slice, const Buffer& query_largest,
                     const Buffer& key_largest, int bits) {
  const int64_t dim = slice.query->shape[3];
  const auto query = QuantizeOperandRows(*slice.query, query_largest, bits);
  const auto key = QuantizeOperandRows(*slice.key, key_largest, bits);
  Buffer out = Buffer::Zeros(
      {slice.batch(), slice.heads(), slice.rows(), slice.keys()}, Dtype::kI32);
  ForScores(slice, [&](int64_t at, int64_t q, int64_t k) {
    int32_t sum = 0;
    for (int64_t d = 0; d < dim; ++d) {
      sum += query[AsIndex(q * dim + d)] * key[AsIndex(k * dim + d)];
    }
    out.integers[AsIndex(at)] = sum;
  });
  return out;
}

Buffer ScaledScores(const LocalSlice& slice, const Buffer& sums,
                    const Buffer& query_largest, const Buffer& key_largest,
                    int bits) {
  Buffer out = Buffer::Zeros(sums.shape, Dtype::kF32);
  const Arithmetic& arithmetic = *slice.arithmetic;
  ForScores(slice, [&](int64_t at, int64_t q, int64_t k) {
    const double query_step = QuantisedStep(
        double{arithmetic.scale(query_largest.real, AsIndex(q))}, bits);
    const double key_step = QuantisedStep(
        double{arithmetic.scale(key_largest.real, AsIndex(k))}, bits);
    out.real[AsIndex(at)] = static_cast<float>(
        arithmetic.unscale(sums.integers[AsIndex(at)], query_step, key_step) *
        double{slice.scale});
  });
  return out;
}

PerDevice QuantisedScores(Machine& machine, const Slices& slices,
                          const AxisGroup& dim_axes, int bits) {
  PerDevice query(slices.at.size()), key(slices.at.size());
  machine.Local([&](int d) {
    const LocalSlice& slice = slices.at[AsIndex(d)];
    query[AsIndex(d)] = LargestOfRows(*slice.query, *slice.arithmetic);
    key[AsIndex(d)] = LargestOfRows(*slice.key, *slice.arithmetic);
  });
  const bool split = machine.mesh().Parts(dim_axes) > 1;
  if (split) {
    query = AllReduce(machine, dim_axes, query, Reduce::kMax, "query maxima");
    key = AllReduce(machine, dim_axes, key, Reduce::kMax, "key maxima");
  }
  PerDevice scores(slices.at.size());
  machine.Local([&](int d) {
    scores[AsIndex(d)] = IntegerScores(slices.at[AsIndex(d)], query[AsIndex(d)],
                                       key[AsIndex(d)], bits);
  });
  if (split) {
    scores = AllReduce(machine, dim_axes, scores, Reduce::kSum, "logits");
  }
  machine.Local([&](int d) {
    scores[AsIndex(d)] = ScaledScores(slices.at[AsIndex(d)], scores[AsIndex(d)],
                                      query[AsIndex(d)], key[AsIndex(d)], bits);
  });
  return scores;
}

bool SoftmaxIn(Dtype dtype, std::span<const float> sinks, std::span<float> row,
               const Arithmetic& arithmetic) {
  const auto narrow = [&](float x) {
    const float y = RoundTo(dtype, x);
    const bool overflows = std::isinf(y) && !std::isinf(x) && y < 0;
    return overflows ? arithmetic.lowest(dtype) : y;
  };
  bool sees = false;
  float top = kMinusInfinity;
  for (float& x : row) {
    sees = sees || x != kMinusInfinity;
    x = narrow(x);
    if (!(x <= top)) top = x;  // also true if x is NaN
  }
  for (float sink : sinks) {
    sees = sees || sink != kMinusInfinity;
    top = std::max(top, narrow(sink));
  }
  if (!sees) {
    std::fill(row.begin(), row.end(), 0.0f);
    return false;
  }
  const auto power = [&](float x) {
    return RoundTo(dtype, std::exp(RoundTo(dtype, x - top)));
  };
  float sum = 0;
  for (float& x : row) {
    x = power(x);
    sum += x;
  }
  for (float sink : sinks) sum += power(narrow(sink));
  sum = RoundTo(dtype, sum);
  for (float& x : row) x = RoundTo(dtype, x / sum);
  return true;
}

bool AttendNarrow(const LocalSlice& slice, const Buffer& scores,
                  const Narrow& narrow, const Buffer* sinks,
                  SoftmaxState& state) {
  const int64_t keys = slice.keys(), dim = slice.value->shape[3];
  const bool whole = narrow.softmax_dtype != Dtype::kF32;
  const int64_t block = whole || narrow.block_k == 0 ? keys : narrow.block_k;
  std::vector<float> row(AsIndex(keys)), own;
  for (int64_t b = 0; b < slice.batch(); ++b) {
    for (int64_t h = 0; h < slice.heads(); ++h) {
      const RowProduct product(slice, narrow, block, b,
                               slice.key_head[AsIndex(h)]);
      own.clear();
      for (int64_t a = 0; whole && sinks != nullptr && a < sinks->shape[0];
           ++a) {
        own.push_back(sinks->real[AsIndex(a * slice.heads() + h)]);
      }
      for (int64_t t = 0; t < slice.rows(); ++t) {
        const int64_t at = (b * slice.heads() + h) * slice.rows() + t;
        std::copy_n(scores.real.begin() + at * keys, keys, row.begin());
        float& max = state.max.real[AsIndex(at)];
        float& sum = state.sum.real[AsIndex(at)];
        float* out = state.out.real.data() + at * dim;
        if (whole) {
          if (!SoftmaxIn(narrow.softmax_dtype, own, row, *slice.arithmetic)) {
            continue;
          }
          max = 0;
          sum = 1;
        }
        for (int64_t begin = 0; begin < keys; begin += block) {
          const int64_t end = std::min(begin + block, keys);
          const std::span<float> part(row.data() + begin, AsIndex(end - begin));
          if (!whole) {
            const float top =
                std::max(max, *std::max_element(part.begin(), part.end()));
            if (top == kMinusInfinity) continue;
            const float factor = std::exp(max - top);
            sum *= factor;
            for (int64_t d = 0; d < dim; ++d) out[d] *= factor;
            max = top;
            for (float& x : part) {
              x = std::exp(x - top);
              sum += x;
            }
          }
          for (int64_t s = begin; s < end; ++s) {
            row[AsIndex(s)] *= KeepAt(slice, b, h, t, s);
          }
          product.Add(part, begin, out);
        }
      }
    }
  }
  return whole;
}

// Finds the common dtype of operands by JAX's promotion lattice (JAX docs:
// "Type promotion semantics"). The table below has one edge from each type to
// each type directly above it. The common type of two types is the lowest type
// that is above both. For example, the common type of BF16 and F16 is F32.

namespace {

enum Node : uint8_t {
  kB,
  kIntStar,
  kU8,
  kU16,
  kU32,
  kU64,
  kI4,
  kU4,
  kI8,
  kI16,
  kI32,
  kI64,
  kFloatStar,
  kE4M3,
  kE5M2,
  kE8M0,
  kE2M1,
  kBF,
  kF16,
  kF32,
  kF64,
  kComplexStar,
  kC64,
  kC128,
  kNodes
};

using Above = std::bitset<kNodes>;

struct Edge {
  Node from, to;
};
constexpr Edge kEdges[] = {
    {kB, kIntStar},
    {kIntStar, kU8},
    {kIntStar, kI8},
    {kIntStar, kU4},
    {kIntStar, kI4},
    {kU8, kU16},
    {kU8, kI16},
    {kU16, kU32},
    {kU16, kI32},
    {kU32, kU64},
    {kU32, kI64},
    {kU64, kFloatStar},
    {kI8, kI16},
    {kI16, kI32},
    {kI32, kI64},
    {kI64, kFloatStar},
    {kFloatStar, kE4M3},
    {kFloatStar, kE5M2},
    {kFloatStar, kE8M0},
    {kFloatStar, kE2M1},
    {kFloatStar, kBF},
    {kFloatStar, kF16},
    {kFloatStar, kComplexStar},
    {kBF, kF32},
    {kF16, kF32},
    {kF32, kF64},
    {kF32, kC64},
    {kF64, kC128},
    {kComplexStar, kC64},
    {kC64, kC128},
};

struct Pair {
  Dtype dtype;
  Node node;
};
constexpr Pair kPairs[] = {
    {Dtype::kBool, kB},      {Dtype::kU8, kU8},       {Dtype::kU16, kU16},
    {Dtype::kU32, kU32},     {Dtype::kU64, kU64},     {Dtype::kI8, kI8},
    {Dtype::kI16, kI16},     {Dtype::kI32, kI32},     {Dtype::kI64, kI64},
    {Dtype::kI4, kI4},       {Dtype::kU4, kU4},       {Dtype::kBF16, kBF},
    {Dtype::kF16, kF16},     {Dtype::kF32, kF32},     {Dtype::kF64, kF64},
    {Dtype::kC64, kC64},     {Dtype::kF8E4M3, kE4M3}, {Dtype::kF8E5M2, kE5M2},
    {Dtype::kF8E8M0, kE8M0}, {Dtype::kF4, kE2M1},
};

std::optional<Node> NodeOf(Dtype dtype) {
  for (const Pair& pair : kPairs) {
    if (pair.dtype == dtype) return pair.node;
  }
  return std::nullopt;
}

std::optional<Dtype> DtypeOf(Node node) {
  for (const Pair& pair : kPairs) {
    if (pair.node == node) return pair.dtype;
  }
  return std::nullopt;
}

// Returns, for each type of the lattice, the set that consists of the type and
// of all types above it.
std::array<Above, kNodes> Closure() {
  std::array<Above, kNodes> above;
  for (size_t i = 0; i < kNodes; ++i) above[i].set(i);
  for (size_t pass = 0; pass < kNodes; ++pass) {
    for (const Edge& edge : kEdges) above[edge.from] |= above[edge.to];
  }
  return above;
}

// Returns the lowest type of the lattice that is above or equal to each of
// `nodes`, or nullopt if there is no such type.
std::optional<Node> Join(std::span<const Node> nodes) {
  static const std::array<Above, kNodes> kAbove = Closure();
  Above all;
  all.set();
  for (Node node : nodes) all &= kAbove[node];
  for (size_t i = 0; i < kNodes; ++i) {
    // The least common type is below all other common types.
    if (all[i] && kAbove[i] == all) return static_cast<Node>(i);
  }
  return std::nullopt;
}

Node NarrowNode(Node node) {
  if (node == kI64) return kI32;
  if (node == kU64) return kU32;
  if (node == kF64) return kF32;
  if (node == kC128) return kC64;
  return node;
}

// A Python scalar without any other operand becomes kI64 if it is an integer
// (kIntStar), or kF64 if it is a float (kFloatStar). Returns all other types
// unchanged.
Node Settle(Node node) {
  if (node == kIntStar) return kI64;
  if (node == kFloatStar) return kF64;
  return node;
}

}  // namespace

std::optional<Dtype> Promote(Dtype a, Dtype b) {
  const std::array<Dtype, 2> both{a, b};
  return CanonicalDtype(both, PromoteOptions{true, false});
}

std::optional<Dtype> CanonicalDtype(std::span<const Dtype> operands,
                                    PromoteOptions options) {
  return CanonicalDtype(operands, {}, options);
}

std::optional<Dtype> CanonicalDtype(std::span<const Dtype> operands,
                                    std::span<const WeakKind> scalars,
                                    PromoteOptions options) {
  std::vector<Node> nodes;
  for (Dtype dtype : operands) {
    const std::optional<Node> node = NodeOf(dtype);
    if (!node) return std::nullopt;
    nodes.push_back(options.x64 ? *node : NarrowNode(*node));
  }
  for (WeakKind weak : scalars) {
    nodes.push_back(weak == WeakKind::kInt ? kIntStar : kFloatStar);
  }
  if (nodes.empty()) return std::nullopt;
  std::optional<Node> common = Join(nodes);
  if (common && options.inexact && Settle(*common) < kFloatStar) {
    const std::array<Node, 2> with_float{kF32, *common};
    common = Join(with_float);
  }
  if (!common) return std::nullopt;
  const Node result = Settle(*common);
  return DtypeOf(options.x64 ? result : NarrowNode(result));
}

}  // namespace shardc::exec
