// The labels of an op, and how each of them may be sharded.
#ifndef SHARDC_STEP_OP_LABELS_H_
#define SHARDC_STEP_OP_LABELS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "step/program.h"

namespace shardc::step {

// The kind of a label of an op. It states which values have the label, and how
// mesh axes may shard the label.
enum class LabelKind : uint8_t {
  kMap,  // In operands and result; the same axes shard it in all of them.
  // In operands only; the result is partial over the axes that shard the label.
  kSum,
  // Only in the operand of a maximum; an all-reduce of maxima follows the op.
  kMax,
  kFresh,  // In the result only; any axes may shard it.
  kNeed,   // The op needs the label unsharded, even if that takes a gather.
};

struct RuleLabel {
  LabelId label = kNoLabel;
  LabelKind kind = LabelKind::kMap;
};

// The distinct labels of an op. Each dimension of an operand and of the result
// refers to its label by an index into `labels`. A label and the label to which
// it is renamed are one entry.
struct OpLabels {
  static constexpr size_t kMost = 24;
  std::array<RuleLabel, kMost> labels{};
  size_t count = 0;
  // For each operand and dimension, the index of its label in `labels`.
  std::vector<std::array<int8_t, kMaxRank>> of{};
  // For each dimension of the result, the index of its label in `labels`.
  std::array<int8_t, kMaxRank> result{};
};
// Sets `out`. Returns false if the op has more labels than OpLabels::kMost or
// more dimensions than kMaxRank.
bool LabelsOf(const Graph& graph, const Op& op, OpLabels& out);

}  // namespace shardc::step

#endif  // SHARDC_STEP_OP_LABELS_H_
