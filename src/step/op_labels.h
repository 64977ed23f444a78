// The labels of an op, and how each of them may be sharded.
#ifndef SHARDC_STEP_OP_LABELS_H_
#define SHARDC_STEP_OP_LABELS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "step/program.h"

namespace shardc::step {

// The kind of a label of an op, by the values that have the label.
enum class LabelKind : uint8_t {
  kMap,    // in operands and result: sharded over the same axes in all of them
  kSum,    // in operands only: the result is partial over the label's axes
  kMax,    // in the operand of a maximum only: the maximum is reduced at once
  kFresh,  // in the result only: may be sharded over any axes
  kNeed,   // must be unsharded, whatever it costs
};

struct RuleLabel {
  LabelId label = kNoLabel;
  LabelKind kind = LabelKind::kMap;
};

// The distinct labels of an op. Each dimension of operands and result is an
// index into `labels`. A label and the label that it is renamed to are one
// entry.
struct OpLabels {
  static constexpr size_t kMost = 24;
  std::array<RuleLabel, kMost> labels{};
  size_t count = 0;
  std::vector<std::array<int8_t, kMaxRank>> of{};  // by operand and dimension
  std::array<int8_t, kMaxRank> result{};           // indexed by dimension
};
// Fills `out`. Returns false if the op has more labels or more dimensions than
// fit.
bool LabelsOf(const Graph& graph, const Op& op, OpLabels& out);

}  // namespace shardc::step

#endif  // SHARDC_STEP_OP_LABELS_H_
