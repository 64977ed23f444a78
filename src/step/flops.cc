// An op runs over the combinations of its labels. Each label has the size of
// its shard, which is the same in all operands that have the label:
//
//   [b, t, d] x [f, d] -> [b, t, f], b over dp 2, f over tp 4:
//   2 * b/2 * t * d * f/4
#include "step/flops.h"

#include <algorithm>
#include <vector>

#include "source/index.h"
#include "step/op_def.h"

namespace shardc::step {
namespace {

const std::vector<LabelId>& LabelsOf(const Graph& graph, ValueId value) {
  return graph.values[AsIndex(value)].labels;
}

bool Has(const std::vector<LabelId>& labels, LabelId label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

OpExtent ExtentOf(const Graph& graph, const Program& program,
                  const Instruction& instruction, const Sizes& sizes) {
  OpExtent out;
  std::vector<LabelId> seen;
  double tokens = 1;  // of a shard
  // Returns the elements of a slot. Labels that are met for the first time
  // count in the combinations.
  const auto elements = [&](int32_t index) {
    const Slot& slot = program.slots[AsIndex(index)];
    const std::vector<LabelId>& labels = LabelsOf(graph, slot.value);
    double all = 1;
    for (size_t d = 0; d < labels.size(); ++d) {
      const int64_t shard =
          sizes[AsIndex(labels[d])] / program.axes.Parts(slot.sharding.dims[d]);
      all *= static_cast<double>(shard);
      if (labels[d] == graph.common.query) tokens = static_cast<double>(shard);
      if (Has(seen, labels[d])) continue;
      seen.push_back(labels[d]);
      out.combinations *= static_cast<double>(shard);
    }
    return all;
  };
  out.result = elements(instruction.out);
  for (const int32_t slot : instruction.in) out.last_operand = elements(slot);
  const CommonLabels& common = graph.common;
  if (Has(seen, common.slot) && Has(seen, common.query)) {
    out.combinations /= tokens;
  }
  out.operands = static_cast<double>(instruction.in.size());
  return out;
}

}  // namespace

double FlopsOf(const Graph& graph, const Program& program,
               const Instruction& instruction, const Sizes& sizes) {
  if (instruction.kind != InstructionKind::kLocal) return 0;
  const Op& op = graph.ops[AsIndex(instruction.op)];
  const OpDef& def = DefOf(op.kind);
  if (def.flops == nullptr) return 0;
  return def.flops(op, ExtentOf(graph, program, instruction, sizes));
}

bool IsMatrixProduct(const Graph& graph, const Op& op) {
  if (op.kind != OpKind::kEinsum) return false;
  const std::vector<LabelId>& result = LabelsOf(graph, op.out);
  return std::any_of(op.in.begin(), op.in.end(), [&](ValueId operand) {
    const std::vector<LabelId>& labels = LabelsOf(graph, operand);
    return std::any_of(labels.begin(), labels.end(),
                       [&](LabelId label) { return !Has(result, label); });
  });
}

}  // namespace shardc::step
