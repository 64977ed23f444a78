// What each op does to the axes that cut its labels, as data.
#ifndef SHARDC_STEP_OP_RULES_H_
#define SHARDC_STEP_OP_RULES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "step/program.h"

namespace shardc::step {

// By where a label stands.
enum class LabelKind : uint8_t {
  kMap,    // in operands and result: cut alike
  kSum,    // in operands only: the result is pending over its axes
  kMax,    // the same, but of a maximum, which is reduced at once
  kFresh,  // in the result only: cut freely
  kNeed,   // whole, whatever it costs
};

// The operands in which an op is linear: what is pending there may stay so,
// where no other operand has the axis.
enum class Linear : uint8_t {
  kNone,
  kFirst,
  kSecond,
  kEach,      // products
  kTogether,  // sums: only if all of them are pending
};

struct OpRule {
  Linear linear = Linear::kNone;
  bool needs_label = false;  // op.label, and op.to where there is one
  bool structural = false;   // dimensions are split, merged or repeated
  // A result may be cut as its consumer wants it, and the consumer's wish
  // holds for its operands.
  bool passes_preference = false;
};
const OpRule& RuleOf(OpKind kind);

struct RuleLabel {
  LabelId label = kNoLabel;
  LabelKind kind = LabelKind::kMap;
};

// An op's labels, and which of them each dimension of operands and result is;
// a renamed label is one.
struct OpLabels {
  static constexpr size_t kMost = 24;
  std::array<RuleLabel, kMost> labels{};
  size_t count = 0;
  std::vector<std::array<int8_t, kMaxRank>> of{};
  std::array<int8_t, kMaxRank> result{};
};
// False where it has more of them than fit.
bool LabelsOf(const Graph& graph, const Op& op, OpLabels& out);

bool IsLinearIn(OpKind kind, size_t operand);

}  // namespace shardc::step

#endif  // SHARDC_STEP_OP_RULES_H_
