// Reports a sharding conflict: in one op, an axis shards one dimension of the
// activation and another dimension of the weight. If the axis is tensor
// parallel, the weight stays sharded and the activation is gathered. Nothing
// would be gathered if the axis sharded the same dimension of both. The step is
// lowered again with such a spec of the weight, to find out whether it sends
// fewer bytes. In the example, `a` is an activation and `o` is a weight. `d:tp`
// is a dimension d that is sharded over tp:
//
//   a [b, t, (n h):tp], o [d:tp, (n h)]   all_gather tp of a
//   a [b, t, (n h):tp], o [d, (n h):tp]   a partial sum, reduced once
//
// SHD411, not this lint, reports conflicts on the hidden dimension of
// activations.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/stages.h"
#include "lint/analysis/step_facts.h"
#include "lint/rules/all.h"
#include "source/wording.h"

namespace shardc {
namespace {

using step::AxisId;
using step::Instruction;
using step::LabelId;

// The weights of one role in all layers, and the activation that is gathered or
// exchanged over `axis` because of them.
struct WeightConflict {
  AxisId axis = 0;
  std::string role, op, activation, held;
  // The label of the activation's dimension that is sharded over `axis`.
  LabelId to = step::kNoLabel;
  int64_t row = -1;
  int64_t layers = 0, moved = 0;
};

// Returns the label of the dimension that the axis no longer shards after an
// all-gather or all-to-all. Returns kNoLabel if no dimension loses the axis.
LabelId Lost(const ModeStep& of, const Instruction& move, AxisId axis) {
  const step::Slot& from =
      of.program().slots[static_cast<size_t>(move.in.front())];
  const step::Slot& to = of.program().slots[static_cast<size_t>(move.out)];
  for (size_t d = 0; d < from.sharding.rank; ++d) {
    if (step::Holds(from.sharding.dims[d].set(), axis) &&
        !step::Holds(to.sharding.dims[d].set(), axis)) {
      return of.graph().values[static_cast<size_t>(from.value)].labels[d];
    }
  }
  return step::kNoLabel;
}

const step::Parameter* ParameterOf(const ModeStep& of, const step::Op& op) {
  for (const step::ValueId value : op.in) {
    for (const step::Parameter& parameter : of.graph().parameters) {
      if (parameter.value == value) return &parameter;
    }
  }
  return nullptr;
}

// Returns the collective of a conflict's op that gathers or exchanges the
// activation over the axis. Returns null if there is none.
const Instruction* MoveFor(const ModeStep& of,
                           const step::ShardingConflict& conflict) {
  for (const Instruction& one : of.program().code) {
    if (one.kind != step::InstructionKind::kCollective ||
        one.op != conflict.op) {
      continue;
    }
    const bool gathers = one.collective == Collective::kAllGather ||
                         one.collective == Collective::kAllToAll;
    const step::ValueId value =
        of.program().slots[static_cast<size_t>(one.in.front())].value;
    if (gathers && step::Holds(one.axes.set(), conflict.axis) &&
        of.weight[static_cast<size_t>(value)] == 0) {
      return &one;
    }
  }
  return nullptr;
}

std::vector<WeightConflict> ConflictsOf(const ModeStep& of) {
  std::map<std::pair<std::string, AxisId>, WeightConflict> found;
  const step::Graph& graph = of.graph();
  for (const step::ShardingConflict& conflict : of.program().conflicts) {
    const step::Op& op = graph.ops[static_cast<size_t>(conflict.op)];
    const step::Parameter* const parameter = ParameterOf(of, op);
    if (op.phase != step::Phase::kForward || parameter == nullptr) continue;
    const Instruction* const move = MoveFor(of, conflict);
    if (move == nullptr) continue;
    const LabelId lost = Lost(of, *move, conflict.axis);
    if (lost < 0 ||
        graph.labels[static_cast<size_t>(lost)].semantic == "EMBED") {
      continue;
    }
    WeightConflict& one = found[{parameter->role, conflict.axis}];
    one.axis = conflict.axis;
    one.role = parameter->role;
    one.op = StepOpName(op);
    const step::ValueId value =
        of.program().slots[static_cast<size_t>(move->in.front())].value;
    one.activation = StepLabelsText(graph, value);
    one.held = graph.labels[static_cast<size_t>(lost)].name;
    one.to = lost;
    one.row = parameter->manifest_rows.front();
    one.layers += of.Times(op);
    one.moved += of.Times(op) * of.Sent(*move);
  }
  std::vector<WeightConflict> out;
  for (auto& [key, conflict] : found) out.push_back(std::move(conflict));
  return out;
}

// Returns the specs of all parameters after a change to the weights of one
// role: the conflict's axis shards the same dimension as in the activation.
// Returns nullopt if the weights lack this dimension.
std::optional<std::vector<Spec>> Moved(const ModeStep& of,
                                       const WeightConflict& conflict,
                                       int& dim) {
  const step::Graph& graph = of.graph();
  const std::string& axis = of.program().axes.names[conflict.axis];
  std::vector<Spec> specs = of.step.specs;
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    if (graph.parameters[i].role != conflict.role) continue;
    const auto& labels =
        graph.values[static_cast<size_t>(graph.parameters[i].value)].labels;
    const auto at = std::find(labels.begin(), labels.end(), conflict.to);
    if (at == labels.end()) return std::nullopt;
    dim = static_cast<int>(at - labels.begin());
    Spec& spec = specs[i];
    spec.resize(std::max(spec.size(), labels.size()));
    for (AxisGroup& axes : spec) std::erase(axes, axis);
    spec[static_cast<size_t>(dim)].push_back(axis);
  }
  return specs;
}

}  // namespace

void CheckClashMovesActivation(const Facts& facts, FindingSink& sink) {
  const StepFacts* const step = facts.Step();
  if (step == nullptr) return;
  const ModeStep* of = step->Find(Mode::kTrain);
  if (of == nullptr) of = step->Find(Mode::kPrefill);
  if (of == nullptr) return;
  for (const WeightConflict& conflict : ConflictsOf(*of)) {
    int dim = -1;
    const auto specs = Moved(*of, conflict, dim);
    if (!specs) continue;
    const auto less = of->SentWith(*specs);
    const int64_t now = of->Sent();
    // A saving of less than a hundredth of the step is not reported.
    if (!less || *less > now - now / 100) continue;
    const ParameterGroup& group = step->GroupOf(conflict.row);
    const std::string axis = Quoted(of->program().axes.names[conflict.axis]);
    LintFinding finding = GroupFinding(
        facts, kClashMovesActivation.code, group,
        "`" + conflict.op + "` gathers its activation " + conflict.activation +
            " over " + axis + ", " + BytesText(conflict.moved) +
            " a device in " + Counted(conflict.layers, "such op") +
            ": it is split on " + conflict.held + ", and " +
            ParametersText(facts, group) + " on another dimension. A step of " +
            Counted(of->inputs.batch, "row") + " sends " + BytesText(now) +
            " a device, and " + BytesText(*less) + " with " + axis +
            " on dimension " + std::to_string(dim) + " of the weight" +
            AddedOverRanks(facts),
        "split dimension " + std::to_string(dim) + " over " + axis);
    const bool own =
        group.rule >= 0 &&
        !facts.rule_facts()[static_cast<size_t>(group.rule)].builtin;
    if (!own) finding.level = Level::kNote;
    finding.subject.clear();
    // Two other lints compare the projections of one module. If they report a
    // reshard at this weight, this finding is redundant.
    finding.unless = {ReshardTopic(facts.Example(group))};
    sink.push_back(std::move(finding));
  }
}

}  // namespace shardc
