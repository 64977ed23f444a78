// Checks sizes that depend on each other. For example, the op that repeats KV
// heads needs a number of heads that the number of KV heads divides, and a
// rotary embedding needs an even number of rotated elements. The same message
// is reported only once:
//
//   repeat k [b, s, 4, h] for n 6
//     ->  4 KV heads cannot serve 6 attention heads: 4 does not divide 6
//
// CheckBytes checks that the bytes of all values fit in 64 bits.
#include "step/check_sizes.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "model/legal_sizes.h"
#include "source/index.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::step {
namespace {

// An upper bound of the bytes of an element, including a margin for copies of
// the value in other shardings.
constexpr int64_t kBytesAndRoom = 16;

std::optional<int64_t> SizeOf(const Sizes& sizes, LabelId label) {
  if (label == kNoLabel) return std::nullopt;
  return sizes[AsIndex(label)];
}

ModelSizes SizesOf(const Graph& graph, const Op& op, const Sizes& sizes) {
  ModelSizes out;
  // If KV heads were copied, their label has two factors: the KV heads, and the
  // copies of each. The number of copies was chosen to fit the mesh, so it is
  // not checked.
  if (op.kind == OpKind::kRepeat) {
    const auto& heads = As<HeadGroupAttributes>(op);
    if (!graph.labels[AsIndex(heads.kv_heads)].factors.empty()) return out;
    out.kv_heads = SizeOf(sizes, heads.kv_heads);
    out.heads = SizeOf(sizes, heads.query_heads);
  } else if (op.kind == OpKind::kRope) {
    const auto& rotated = As<RopeAttributes>(op);
    const Rope& rope = graph.ropes[AsIndex(rotated.rope)];
    const int64_t head_dim = sizes[AsIndex(rotated.label)];
    out.head_dim = head_dim;
    out.rotary_dim = RotaryDim(head_dim, rope.rotary_fraction);
  }
  return out;
}

std::string ExpertGroups(const Graph& graph, const Sizes& sizes, const Op& op) {
  const auto& best = As<TopGroupsAttributes>(op);
  const int64_t groups = sizes[AsIndex(best.groups)];
  const int64_t chosen = sizes[AsIndex(best.chosen)];
  const int64_t experts = SizeOf(sizes, graph.common.experts).value_or(0);
  if (groups < 1 || experts % groups != 0) {
    return CountText(experts) + " experts do not divide into " +
           CountText(groups) + " groups";
  }
  if (chosen < 1 || chosen > groups) {
    return "the router chooses " + CountText(chosen) + " of " +
           CountText(groups) + " groups of experts";
  }
  return "";
}

}  // namespace

bool CheckSizes(const Graph& graph, const Sizes& sizes, const Place& place,
                Findings& findings) {
  const size_t before = findings.errors();
  std::set<std::string> reported;
  const auto report = [&](std::string message, std::string help) {
    if (message.empty() || !reported.insert(message).second) return;
    findings.Add(code::kNumber, place, std::move(message), std::move(help));
  };
  const auto check = [&](const ModelSizes& of) {
    for (IllegalSize& one : IllegalSizes(of)) {
      report(std::move(one.message), std::move(one.help));
    }
  };
  for (const Op& op : graph.ops) {
    check(SizesOf(graph, op, sizes));
    if (op.kind == OpKind::kTopGroups) {
      report(ExpertGroups(graph, sizes, op),
             "each group has the same number of experts");
    }
  }
  ModelSizes routed;
  routed.experts = SizeOf(sizes, graph.common.experts);
  routed.experts_per_token = SizeOf(sizes, graph.common.top_k);
  check(routed);
  return findings.errors() == before;
}

bool CheckBytes(const Graph& graph, const Sizes& sizes, const Place& place,
                Findings& findings, std::span<const int64_t> layer_times) {
  Size all = 0;
  const Op* largest = nullptr;
  int64_t most = 0;
  for (const Op& op : graph.ops) {
    Size elements = kBytesAndRoom;
    for (const LabelId label : graph.values[AsIndex(op.out)].labels) {
      elements *= sizes[AsIndex(label)];
    }
    const bool repeats = !layer_times.empty() && op.layer >= 0;
    all += repeats ? elements * layer_times[AsIndex(op.layer)] : elements;
    if (elements.value() <= most) continue;
    most = elements.value();
    largest = &op;
  }
  if (all.Fits() || largest == nullptr) return true;
  std::string shape;
  for (const LabelId label : graph.values[AsIndex(largest->out)].labels) {
    shape +=
        (shape.empty() ? "[" : ", ") + std::to_string(sizes[AsIndex(label)]);
  }
  findings.Add(code::kOverflow, place,
               "the bytes of the step's values do not fit in 64 bits: the "
               "largest is " +
                   shape + "], of `" + largest->name + "`",
               "give a smaller batch or length");
  return false;
}

}  // namespace shardc::step
