// Counts the floating-point operations of an op on one device. The op's formula
// (OpDef::flops) is given the product of the sizes that all labels of the op
// have on one device. If several operands have a label, their shards of this
// label are equal.
//
// An op on the queues of experts has both a label for tokens and a label for
// the slots of a queue. The tokens are left out of the product, because each
// slot holds at most one token. For example, a matrix product:
//
//   [b, t, d] x [f, d] -> [b, t, f], b over dp 2, f over tp 4:
//   2 * b/2 * t * d * f/4
#include "step/flops.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "source/index.h"
#include "step/op_def.h"
#include "step/op_labels.h"

namespace shardc::step {
namespace {

OpExtent ExtentOf(const Graph& graph, const Program& program,
                  const Instruction& instruction, const OpLabels& labels,
                  const Sizes& sizes) {
  std::array<double, OpLabels::kMost> shards{};
  // Returns the number of elements of a slot (a value in one sharding) on a
  // device, and stores the sizes of its labels' shards in `shards`.
  const auto elements = [&](int32_t index,
                            const std::array<int8_t, kMaxRank>& dims) {
    const Slot& slot = program.slots[AsIndex(index)];
    double all = 1;
    for (size_t d = 0; d < slot.sharding.rank; ++d) {
      const LabelId label = graph.values[AsIndex(slot.value)].labels[d];
      const int64_t size =
          sizes[AsIndex(label)] / program.axes.Parts(slot.sharding.dims[d]);
      const auto shard = static_cast<double>(size);
      shards[AsIndex(dims[d])] = shard;
      all *= shard;
    }
    return all;
  };
  OpExtent out;
  out.operands = static_cast<double>(instruction.in.size());
  for (size_t i = 0; i < instruction.in.size(); ++i) {
    out.last_operand = elements(instruction.in[i], labels.of[i]);
  }
  out.result = elements(instruction.out, labels.result);
  double tokens = 1;
  bool slots = false;
  for (size_t i = 0; i < labels.count; ++i) {
    out.combinations *= shards[i];
    if (labels.labels[i].label == graph.common.query) tokens = shards[i];
    slots = slots || labels.labels[i].label == graph.common.slot;
  }
  if (slots) out.combinations /= tokens;
  return out;
}

}  // namespace

double FlopsOf(const Graph& graph, const Program& program,
               const Instruction& instruction, const Sizes& sizes) {
  if (instruction.kind != InstructionKind::kLocal) return 0;
  const Op& op = graph.ops[AsIndex(instruction.op)];
  const OpDef& def = DefOf(op.kind);
  OpLabels labels;
  if (def.flops == nullptr || !LabelsOf(graph, op, labels)) return 0;
  return def.flops(op, ExtentOf(graph, program, instruction, labels, sizes));
}

bool IsMatrixProduct(const Graph& graph, const Op& op) {
  OpLabels labels;
  if (op.kind != OpKind::kEinsum || !LabelsOf(graph, op, labels)) return false;
  return std::any_of(
      labels.labels.begin(), labels.labels.begin() + labels.count,
      [](const RuleLabel& one) { return one.kind == LabelKind::kSum; });
}

}  // namespace shardc::step
