// Lints about what a step of the model sends. The step is lowered again with
// the spec that the finding proposes, and reported only if it then sends fewer
// bytes.
//
//   gradient all-reduced over fsdp  ->  twice the bytes of a reduce-scatter
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/analysis/pattern_faults.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/step_facts.h"
#include "lint/rules/all.h"
#include "source/list.h"
#include "source/wording.h"

namespace shardc {

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

// Finds weights that a decode step gathers. The step is lowered with the
// cheapest collectives at each op. If the gathers send 1 MiB or more, the step
// is lowered a second time, without the gathered axes in the specs of these
// weights. The weights are reported if the second step sends fewer bytes.
// Choosing the cheapest collectives op by op need not be the cheapest for the
// whole step: with many sequences on a device, gathering a weight sends fewer
// bytes than resharding the activations of this op. For example:
//
//   query weight over fsdp, 4096 sequences on a device
//     ->  each step all-gathers the weight and sends 31 MiB
namespace {

constexpr int64_t kWorthBytes = int64_t{1} << 20;

// Returns the parameter that has this value, or the first parameter from which
// the value is computed. Returns null if the value depends on other inputs than
// parameters.
const step::Parameter* Origin(const ModeStep& of, step::ValueId value) {
  if (of.weight[static_cast<size_t>(value)] == 0) return nullptr;
  for (const step::Parameter& parameter : of.graph().parameters) {
    if (parameter.value == value) return &parameter;
  }
  for (const step::Op& op : of.graph().ops) {
    if (op.out == value && !op.in.empty()) return Origin(of, op.in.front());
  }
  return nullptr;
}

struct Gathered {
  AxisGroup axes;
  int64_t bytes = 0, layers = 0;
  int64_t row = -1;
};

std::map<std::string, Gathered> GatheredBy(const ModeStep& of) {
  std::map<std::string, Gathered> out;
  for (const step::Instruction& one : of.program().code) {
    if (one.kind != step::InstructionKind::kCollective || one.op < 0 ||
        one.collective != Collective::kAllGather) {
      continue;
    }
    const step::Parameter* const parameter = Origin(
        of, of.program().slots[static_cast<size_t>(one.in.front())].value);
    if (parameter == nullptr) continue;
    const int64_t times = of.Times(of.graph().ops[static_cast<size_t>(one.op)]);
    Gathered& role = out[parameter->role];
    for (const std::string& axis : of.program().axes.Group(one.axes)) {
      AddOnce(role.axes, axis);
    }
    role.bytes += times * of.Sent(one);
    role.layers += times;
    role.row = parameter->manifest_rows.front();
  }
  return out;
}

std::vector<Spec> Without(const ModeStep& of,
                          const std::map<std::string, Gathered>& gathered) {
  std::vector<Spec> specs = of.step.specs;
  for (size_t i = 0; i < specs.size(); ++i) {
    const auto role = gathered.find(of.graph().parameters[i].role);
    if (role == gathered.end()) continue;
    for (AxisGroup& axes : specs[i]) {
      std::erase_if(axes, [&](const std::string& axis) {
        const AxisGroup& gone = role->second.axes;
        return IsAmong(axis, gone);
      });
    }
  }
  return specs;
}

}  // namespace

void CheckDecodeGathersWeights(const Facts& facts, FindingSink& sink) {
  const StepFacts* const step = facts.Step();
  const ModeStep* const of =
      step == nullptr ? nullptr : step->Find(Mode::kDecode);
  if (of == nullptr) return;
  const auto gathered = GatheredBy(*of);
  int64_t bytes = 0;
  for (const auto& [role, one] : gathered) bytes += one.bytes;
  if (bytes < kWorthBytes) return;
  const auto less = of->SentWith(Without(*of, gathered));
  if (!less || *less >= of->Sent()) return;
  LintFinding finding = FindingAt(kDecodeGathersWeights.code);
  std::vector<std::string> texts;
  for (const auto& [role, one] : gathered) {
    const ParameterGroup& group = step->GroupOf(one.row);
    if (texts.empty()) {
      finding.place = facts.GroupPlace(group);
    } else {
      finding.labels.push_back({facts.GroupPlace(group), "and here"});
    }
    texts.push_back(ParametersText(facts, group) + " over " +
                    GroupText(one.axes));
    facts.AddNames(facts.Members(group), finding);
  }
  finding.message = "decoding gathers " + ListText(texts) + ": " +
                    BytesText(bytes) + " of the " + BytesText(of->Sent()) +
                    " that a device sends for each token of " +
                    Counted(of->inputs.batch, "row") + ", " + BytesText(*less) +
                    " without these axes" + AddedOverRanks(facts);
  finding.help =
      "leave these axes out of the weights' specs in decode, `modes: {decode: "
      "...}`, if the memory of a device allows it";
  sink.push_back(std::move(finding));
}

// Reports large gradients that are all-reduced over an axis of fully sharded
// data parallelism (FSDP). If the parameter is sharded over such an axis, its
// gradient is reduce-scattered. Otherwise its gradient is all-reduced, which
// sends twice as many bytes. Below, `d:fsdp` is dimension d, sharded over fsdp:
//
//   q    [n h, d:fsdp]   its gradient is reduce-scattered over fsdp
//   head [v:tp, d]       its gradient is all-reduced over fsdp
namespace {

// The axis over which the gradients of a parameter group are all-reduced, and
// the bytes that a device sends for them.
struct Reduced {
  std::string axis;
  int64_t bytes = 0;
};

// Returns the parameter whose gradient is this value. Returns null if the value
// is not a gradient.
const step::Parameter* GradientOf(const step::Graph& graph,
                                  step::ValueId value) {
  for (size_t i = 0; i < graph.gradients.size(); ++i) {
    if (graph.gradients[i] == value) return &graph.parameters[i];
  }
  return nullptr;
}

// Returns whether the axis's size divides a dimension of a device's shard.
bool Divides(const Facts& facts, const ParameterGroup& group,
             const std::string& axis) {
  const auto& shard = facts.Train(group).shard_shape;
  const int64_t parts = facts.mesh().SizeOf(axis);
  return shard && std::any_of(shard->begin(), shard->end(),
                              [&](int64_t size) { return size % parts == 0; });
}

void Report(const Facts& facts, const ModeStep& of, const ParameterGroup& group,
            const Reduced& reduced, FindingSink& sink) {
  const int64_t parts = facts.mesh().SizeOf(reduced.axis);
  const auto held = facts.Train(group).bytes_per_device;
  if (!held) return;
  const int64_t bytes = *held * group.count();
  LintFinding finding = GroupFinding(
      facts, kGradientAllReduced.code, group,
      "the gradient of " + ParametersText(facts, group) +
          " is all_reduced over " + Quoted(reduced.axis) + ", " +
          BytesText(reduced.bytes) + " a device and step of " +
          Counted(of.inputs.batch, "row") + ", twice what a reduce_scatter " +
          "sends. Other parameters are split over this axis; a device holds " +
          BytesText(bytes) + " of this one, " + BytesText(bytes / parts) +
          " if it were split, and as much again of its gradient and of each "
          "moment",
      "split a dimension over " + Quoted(reduced.axis) +
          ", if the memory is worth more than gathering the weight before use");
  finding.subject.clear();
  sink.push_back(std::move(finding));
}

}  // namespace

void CheckGradientAllReduced(const Facts& facts, FindingSink& sink) {
  const StepFacts* const step = facts.Step();
  const ModeStep* const of =
      step == nullptr ? nullptr : step->Find(Mode::kTrain);
  if (of == nullptr) return;
  const AxisGroup& sharded =
      facts.compiled()
          .rules.axes.Value(AxisRule::kFullyShardedDataParallel)
          .axes;
  std::set<std::string> scattered;
  std::map<const ParameterGroup*, Reduced> found;
  for (const step::Instruction& one : of->program().code) {
    if (one.kind != step::InstructionKind::kCollective || one.op < 0) continue;
    const step::Parameter* const parameter = GradientOf(
        of->graph(),
        of->program().slots[static_cast<size_t>(one.in.front())].value);
    if (parameter == nullptr) continue;
    for (const std::string& axis : of->program().axes.Group(one.axes)) {
      if (!IsAmong(axis, sharded)) {
        continue;
      }
      if (one.collective == Collective::kReduceScatter) scattered.insert(axis);
      if (one.collective != Collective::kAllReduce) continue;
      Reduced& reduced =
          found[&step->GroupOf(parameter->manifest_rows.front())];
      reduced.axis = axis;
      reduced.bytes += of->Sent(one) *
                       of->Times(of->graph().ops[static_cast<size_t>(one.op)]);
    }
  }
  for (const ParameterGroup& group : facts.groups()) {
    const auto reduced = found.find(&group);
    if (reduced == found.end() || !scattered.contains(reduced->second.axis) ||
        facts.Elements(group) < kLargeElements ||
        facts.TotalBytes(group) < facts.total_bytes() / 100 ||
        // Another lint reports parameters that are replicated on all devices.
        facts.Replicated(group) ||
        !Divides(facts, group, reduced->second.axis)) {
      continue;
    }
    Report(facts, *of, group, reduced->second, sink);
  }
}

}  // namespace shardc
