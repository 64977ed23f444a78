// Determines the LabelKind of each dimension label of an op. The kind depends
// on whether operands and result have the label, and on the op's definition
// (OpDef). The definition states which labels must be unsharded, and the kind
// of the labels that the result lacks:
//
//   einsum y [b, t, d], w [f, d] -> [b, t, f]   b, t, f: kMap    d: kSum
//   max of logits [b, t, v] -> [b, t]           b, t: kMap       v: kMax
//   top k of [b, t, e]                          b, t: kMap       e: kNeed
#include "step/op_labels.h"

#include <algorithm>
#include <variant>

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

LabelKind KindOf(const OpDef& def, bool unsharded, bool in_operands,
                 bool in_result) {
  if (unsharded) return LabelKind::kNeed;
  if (!in_operands) return LabelKind::kFresh;
  if (in_result) return LabelKind::kMap;
  return def.dropped;
}

}  // namespace

bool LabelsOf(const Graph& graph, const Op& op, OpLabels& out) {
  const auto labels_of = [&](ValueId value) -> const std::vector<LabelId>& {
    return graph.values[AsIndex(value)].labels;
  };
  const auto* const rename = std::get_if<RenameAttributes>(&op.attributes);
  out.count = 0;
  out.of.assign(op.in.size(), {});
  std::array<bool, OpLabels::kMost> in_operands{}, in_result{};
  for (size_t i = 0; i < op.in.size(); ++i) {
    const std::vector<LabelId>& labels = labels_of(op.in[i]);
    if (labels.size() > kMaxRank) return false;
    for (size_t d = 0; d < labels.size(); ++d) {
      const bool old = rename != nullptr && labels[d] == rename->from;
      const int8_t at = Find(out, old ? rename->to : labels[d]);
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
  const OpDef& def = DefOf(op.kind);
  std::array<LabelId, 2> unsharded = {kNoLabel, kNoLabel};
  if (def.unsharded != nullptr) unsharded = def.unsharded(graph, op);
  for (size_t i = 0; i < out.count; ++i) {
    const LabelId label = out.labels[i].label;
    const bool needed = label == unsharded[0] || label == unsharded[1];
    out.labels[i].kind = KindOf(def, needed, in_operands[i], in_result[i]);
  }
  return true;
}

}  // namespace shardc::step
