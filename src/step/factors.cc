// Derives the shardings of ops that split, merge or repeat dimensions. A
// dimension (n h) is the product of the factors n and h, such as the number of
// heads and the size of a head.
//
// A split distributes the axes of (n h), in order. They shard n as long as the
// product of their sizes divides the size of n. The axes after these shard h,
// but only if each device then has a single index of n. All other axes are
// gathered before the split. A merge is the inverse: axes of h are kept only if
// each device has a single index of n.
//
// Query heads that are repeated from KV heads may be sharded over more axes
// than the KV heads. If query heads are summed to KV heads, the result is
// partial over the axes that do not divide the KV heads. For example:
//
//   split (n h) over tp 4, n 8                ->  n:tp
//   split (n h) over [a 2, b 2], n 2          ->  n:a h:b
//   sum n 8 over [a 2, b 2] to KV heads k 2   ->  k:a, partial over b
#include "step/factors.h"

#include <algorithm>

#include "source/index.h"

namespace shardc::step {
namespace {

const std::vector<LabelId>& LabelsOf(const Graph& graph, ValueId value) {
  return graph.values[AsIndex(value)].labels;
}

size_t DimOf(const std::vector<LabelId>& labels, LabelId label) {
  return AsIndex(std::find(labels.begin(), labels.end(), label) -
                 labels.begin());
}

struct Context {
  const Graph& graph;
  const Axes& axes;
  const Sizes& sizes;
  int64_t Size(LabelId label) const { return sizes[AsIndex(label)]; }
  const std::vector<LabelId>& Factors(LabelId label) const {
    return graph.labels[AsIndex(label)].factors;
  }
};

// Returns for each factor of the label `whole` the axes of `list` that shard
// it. `placed` is set to all axes that shard some factor.
std::vector<AxisList> Distribute(const Context& at, LabelId whole,
                                 const AxisList& list, AxisList& placed) {
  const std::vector<LabelId>& factors = at.Factors(whole);
  std::vector<AxisList> out(factors.size());
  size_t f = 0;
  int64_t left = factors.empty() ? 1 : at.Size(factors[0]);
  for (AxisId axis : list) {
    while (left == 1 && f + 1 < factors.size()) left = at.Size(factors[++f]);
    const int64_t n = at.axes.sizes[axis];
    if (f >= factors.size() || left % n != 0) break;
    left /= n;
    out[f].push_back(axis);
    placed.push_back(axis);
  }
  return out;
}

// Returns the axes that shard the merged dimension `whole`. Axes of its factors
// that cannot be kept are removed from the operand's sharding.
AxisList Join(const Context& at, LabelId whole,
              const std::vector<LabelId>& labels, Sharding& operand) {
  AxisList out;
  // Axes may shard a factor only while `open` is true.
  bool open = true;  // every device has one index of each factor so far
  for (LabelId factor : at.Factors(whole)) {
    AxisList& list = operand.dims[DimOf(labels, factor)];
    if (!open) {
      list = {};
      continue;
    }
    for (AxisId axis : list) out.push_back(axis);
    open = at.axes.Parts(list) == at.Size(factor);
  }
  return out;
}

// Sets the sharding `to`: copies the partial axes of `from`, and the axes of
// the labels that both values have.
void CopyCommon(const std::vector<LabelId>& from_labels, const Sharding& from,
                const std::vector<LabelId>& to_labels, Sharding& to) {
  to.rank = static_cast<uint8_t>(to_labels.size());
  to.partial = from.partial;
  for (size_t d = 0; d < to_labels.size(); ++d) {
    const size_t s = DimOf(from_labels, to_labels[d]);
    to.dims[d] = s < from_labels.size() ? from.dims[s] : AxisList{};
  }
}

void SplitOf(const Context& at, const Op& op, Sharding& from, Sharding& to,
             const std::vector<LabelId>& from_labels,
             const std::vector<LabelId>& to_labels) {
  const LabelId label = As<LabelAttributes>(op).label;
  AxisList placed;
  AxisList& whole = from.dims[DimOf(from_labels, label)];
  const std::vector<AxisList> lists = Distribute(at, label, whole, placed);
  whole = placed;
  const std::vector<LabelId>& factors = at.Factors(label);
  for (size_t f = 0; f < factors.size(); ++f) {
    to.dims[DimOf(to_labels, factors[f])] = lists[f];
  }
}

void MergeOf(const Context& at, const Op& op, Sharding& from, Sharding& to,
             const std::vector<LabelId>& from_labels,
             const std::vector<LabelId>& to_labels) {
  const LabelId label = As<LabelAttributes>(op).label;
  to.dims[DimOf(to_labels, label)] = Join(at, label, from_labels, from);
}

// Returns the axes that shard query heads which are repeated from KV heads.
// These are the axes of the preferred sharding if they begin with the axes of
// the KV heads, or if the op is part of a kernel, which runs on shards of the
// heads. They must also divide the number of query heads and must not shard
// another dimension. Otherwise returns the axes of the KV heads.
AxisList Repeated(const Context& at, const HeadGroupAttributes& heads,
                  const Sharding& from, const AxisList& kv,
                  const Sharding* wanted, size_t heads_dim) {
  if (wanted == nullptr) return kv;
  const AxisList& preferred = wanted->dims[heads_dim];
  const auto others = static_cast<AxisSet>(from.used() & ~kv.set());
  const bool nest = IsPrefix(kv, preferred) || heads.in_slices;
  const bool fits = nest && (preferred.set() & others) == 0 &&
                    at.Size(heads.query_heads) % at.axes.Parts(preferred) == 0;
  return fits ? preferred : kv;
}

// Returns the leading axes of the query heads whose product divides the number
// of KV heads.
AxisList Grouped(const Context& at, LabelId kv, const AxisList& heads) {
  AxisList out;
  int64_t parts = 1;
  for (AxisId axis : heads) {
    parts *= at.axes.sizes[axis];
    if (at.Size(kv) % parts != 0) break;
    out.push_back(axis);
  }
  return out;
}

}  // namespace

Structural PassThrough(const Graph& graph, const Op& op, const Axes& axes,
                       const Sizes& sizes, const Sharding& operand,
                       const Sharding* wanted) {
  const Context at{graph, axes, sizes};
  const std::vector<LabelId>& from_labels = LabelsOf(graph, op.in[0]);
  const std::vector<LabelId>& to_labels = LabelsOf(graph, op.out);
  Structural out{.operand = operand, .result = {}};
  CopyCommon(from_labels, operand, to_labels, out.result);
  switch (op.kind) {
    case OpKind::kSplit:
      SplitOf(at, op, out.operand, out.result, from_labels, to_labels);
      break;
    case OpKind::kMerge:
      MergeOf(at, op, out.operand, out.result, from_labels, to_labels);
      break;
    case OpKind::kRepeat: {
      const auto& heads = As<HeadGroupAttributes>(op);
      const size_t dim = DimOf(to_labels, heads.query_heads);
      out.result.dims[dim] = Repeated(
          at, heads, operand, operand.dims[DimOf(from_labels, heads.kv_heads)],
          wanted, dim);
      break;
    }
    case OpKind::kGroupSum: {
      const auto& group = As<HeadGroupAttributes>(op);
      const AxisList& heads =
          operand.dims[DimOf(from_labels, group.query_heads)];
      const AxisList kept = Grouped(at, group.kv_heads, heads);
      out.result.dims[DimOf(to_labels, group.kv_heads)] = kept;
      out.result.partial = static_cast<AxisSet>(out.result.partial |
                                                (heads.set() & ~kept.set()));
      break;
    }
    default:
      break;
  }
  return out;
}

Sharding PullBack(const Graph& graph, const Op& op, const Axes& axes,
                  const Sizes& sizes, const Sharding& wanted) {
  const Context at{graph, axes, sizes};
  const std::vector<LabelId>& from_labels = LabelsOf(graph, op.in[0]);
  const std::vector<LabelId>& to_labels = LabelsOf(graph, op.out);
  Sharding result = wanted, out;
  CopyCommon(to_labels, wanted, from_labels, out);
  switch (op.kind) {
    case OpKind::kSplit:
      MergeOf(at, op, result, out, to_labels, from_labels);
      break;
    case OpKind::kMerge:
      SplitOf(at, op, result, out, to_labels, from_labels);
      break;
    case OpKind::kRepeat: {
      const auto& heads = As<HeadGroupAttributes>(op);
      out.dims[DimOf(from_labels, heads.kv_heads)] = Grouped(
          at, heads.kv_heads, wanted.dims[DimOf(to_labels, heads.query_heads)]);
      break;
    }
    case OpKind::kGroupSum: {
      const auto& heads = As<HeadGroupAttributes>(op);
      out.dims[DimOf(from_labels, heads.query_heads)] =
          wanted.dims[DimOf(to_labels, heads.kv_heads)];
      break;
    }
    case OpKind::kRename: {
      const auto& [before, after] = As<RenameAttributes>(op);
      out.dims[DimOf(from_labels, before)] =
          wanted.dims[DimOf(to_labels, after)];
      break;
    }
    default:
      break;
  }
  return out;
}

}  // namespace shardc::step
