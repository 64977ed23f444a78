// Finds the common dtype of operands by JAX's promotion lattice (JAX docs:
// "Type promotion semantics"). The table below has one edge from each type to
// each type directly above it. The common type of two types is the lowest type
// that is above both. For example, the common type of BF16 and F16 is F32.
#include "exec/attention/promote.h"

#include <array>
#include <bitset>
#include <cstddef>
#include <vector>

namespace shardc::exec {
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
