// A label's kind follows from where it stands; what else there is to know of an
// op is a row of the table.
//
//   einsum y [b, t, d], w [f, d] -> [b, t, f]   b, t, f map; d sum
//   max logits [b, t, v] -> [b, t]              b, t map; v max
//   top k of [b, t, e]                          b, t map; e need
#include "step/op_rules.h"

#include <algorithm>

#include "source/index.h"

namespace shardc::step {
namespace {

constexpr OpRule kInput{};
constexpr OpRule kEinsum{.linear = Linear::kEach};
constexpr OpRule kAdd{.linear = Linear::kTogether, .passes_preference = true};
constexpr OpRule kLinear{.linear = Linear::kFirst};
constexpr OpRule kPassing{.linear = Linear::kFirst, .passes_preference = true};
constexpr OpRule kSecond{.linear = Linear::kSecond};
constexpr OpRule kNonlinear{.linear = Linear::kNone, .passes_preference = true};
constexpr OpRule kMax{.linear = Linear::kNone};
constexpr OpRule kWhole{.linear = Linear::kFirst, .needs_label = true};
constexpr OpRule kRopeLike{
    .linear = Linear::kFirst, .needs_label = true, .passes_preference = true};
constexpr OpRule kChosen{.linear = Linear::kNone, .needs_label = true};
constexpr OpRule kStructural{
    .linear = Linear::kFirst, .structural = true, .passes_preference = true};

// By OpKind.
constexpr const OpRule* kRules[] = {
    &kInput,       // kInput
    &kEinsum,      // kEinsum
    &kAdd,         // kAdd
    &kPassing,     // kScale
    &kNonlinear,   // kFn
    &kLinear,      // kSum
    &kMax,         // kMax
    &kLinear,      // kBroadcast
    &kLinear,      // kLookup
    &kSecond,      // kScatter
    &kLinear,      // kPick
    &kSecond,      // kPlace
    &kStructural,  // kSplit
    &kStructural,  // kMerge
    &kWhole,       // kPart
    &kWhole,       // kUnpart
    &kWhole,       // kIndex
    &kWhole,       // kUnindex
    &kPassing,     // kRename
    &kLinear,      // kIdentity
    &kRopeLike,    // kRope
    &kMax,         // kMask
    &kStructural,  // kRepeat
    &kStructural,  // kGroupSum
    &kChosen,      // kTopGroups
    &kChosen,      // kTopK
    &kChosen,      // kSlots
    &kPassing,     // kDropout
    &kMax,         // kCacheWrite
    &kMax,         // kAdamW
    &kRopeLike,    // kRoll
    &kMax,         // kDistance
};
static_assert(std::size(kRules) == static_cast<size_t>(OpKind::kDistance) + 1);

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
  if (op.kind == OpKind::kSlots) {
    // Tokens queue up, one after the other.
    if (label == graph.common.query) return LabelKind::kNeed;
  } else if (RuleOf(op.kind).needs_label &&
             (label == op.label || label == op.to)) {
    return LabelKind::kNeed;
  }
  if (!in_operands) return LabelKind::kFresh;
  if (in_result) return LabelKind::kMap;
  if (op.kind == OpKind::kCacheWrite) return LabelKind::kNeed;
  return op.kind == OpKind::kMax ? LabelKind::kMax : LabelKind::kSum;
}

}  // namespace

const OpRule& RuleOf(OpKind kind) { return *kRules[static_cast<size_t>(kind)]; }

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

bool IsLinearIn(OpKind kind, size_t operand) {
  switch (RuleOf(kind).linear) {
    case Linear::kNone:
      return false;
    case Linear::kFirst:
      return operand == 0;
    case Linear::kSecond:
      return operand == 1;
    case Linear::kEach:
    case Linear::kTogether:
      return true;
  }
  return false;
}

}  // namespace shardc::step
