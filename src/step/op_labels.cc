// A label's kind follows from where the label is, and from the op's record:
//
//   einsum y [b, t, d], w [f, d] -> [b, t, f]   b, t and f map, d sums
//   max of logits [b, t, v] -> [b, t]           b and t map, v is a maximum
//   top k of [b, t, e]                          b and t map, e is unsharded
#include "step/op_labels.h"

#include <algorithm>

#include "source/index.h"
#include "step/op_def.h"

namespace shardc::step {
namespace {

int8_t Find(OpLabels& out, LabelId label) {
  for (size_t i = 0; i < out.count; ++i) {
    if (out.labels[i].label == label) return static_cast<int8_t>(i);
  }
  if (out.count == OpLabels::kMost) return -1;
  out.labels[out.count] = {label, LabelKind::kMap};
  return static_cast<int8_t>(out.count++);
}

LabelKind KindOf(const Graph& graph, const Op& op, LabelId label,
                 bool in_operands, bool in_result) {
  const OpDef& def = DefOf(op.kind);
  if (op.kind == OpKind::kSlots) {
    // A token's place in a queue depends on all tokens before it.
    if (label == graph.common.query) return LabelKind::kNeed;
  } else if (def.needs_unsharded && (label == op.label || label == op.to)) {
    return LabelKind::kNeed;
  }
  if (!in_operands) return LabelKind::kFresh;
  if (in_result) return LabelKind::kMap;
  return def.dropped;
}

}  // namespace

bool LabelsOf(const Graph& graph, const Op& op, OpLabels& out) {
  const auto labels_of = [&](ValueId value) -> const std::vector<LabelId>& {
    return graph.values[AsIndex(value)].labels;
  };
  const bool renames = op.kind == OpKind::kRename;
  out.count = 0;
  out.of.assign(op.in.size(), {});
  std::array<bool, OpLabels::kMost> in_operands{}, in_result{};
  for (size_t i = 0; i < op.in.size(); ++i) {
    const std::vector<LabelId>& labels = labels_of(op.in[i]);
    if (labels.size() > kMaxRank) return false;
    for (size_t d = 0; d < labels.size(); ++d) {
      const bool old = renames && labels[d] == op.label;
      const int8_t at = Find(out, old ? op.to : labels[d]);
      if (at < 0) return false;
      out.of[i][d] = at;
      in_operands[AsIndex(at)] = true;
    }
  }
  const std::vector<LabelId>& result = labels_of(op.out);
  if (result.size() > kMaxRank) return false;
  for (size_t d = 0; d < result.size(); ++d) {
    const int8_t at = Find(out, result[d]);
    if (at < 0) return false;
    out.result[d] = at;
    in_result[AsIndex(at)] = true;
  }
  for (size_t i = 0; i < out.count; ++i) {
    out.labels[i].kind =
        KindOf(graph, op, out.labels[i].label, in_operands[i], in_result[i]);
  }
  return true;
}

}  // namespace shardc::step
