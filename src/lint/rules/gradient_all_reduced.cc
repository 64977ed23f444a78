// Gradients that fully sharded data parallelism reduces in scattered form, and
// those that it reduces whole, as their parameter lacks the axis:
//
//   q    [n h, d:fsdp]   reduce_scatter fsdp
//   head [v:tp, d]       all_reduce fsdp, and whole along it in memory
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/analysis/fall_through.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/step_facts.h"
#include "lint/rules/lint.h"
#include "lint/rules/step_example.h"
#include "source/wording.h"

namespace shardc {

extern const Lint kGradientAllReduced;

namespace {

// By parameter group: the axis and what its reductions send.
struct Reduced {
  std::string axis;
  int64_t bytes = 0;
};

// The parameter whose gradient a value is; null where it is none's.
const step::Parameter* GradientOf(const step::Graph& graph,
                                  step::ValueId value) {
  for (size_t i = 0; i < graph.gradients.size(); ++i) {
    if (graph.gradients[i] == value) return &graph.parameters[i];
  }
  return nullptr;
}

// Some dimension of each shard divides by the axis.
bool Divides(const Facts& facts, const ParameterGroup& group,
             const std::string& axis) {
  const auto& shard = facts.Train(group).shard_shape;
  const int64_t parts = facts.mesh().SizeOf(axis);
  return shard && std::any_of(shard->begin(), shard->end(),
                              [&](int64_t size) { return size % parts == 0; });
}

void Say(const Facts& facts, const ModeStep& of, const ParameterGroup& group,
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
          "sends: others of the model are split over it, and each device has " +
          BytesText(bytes) + " of this where " + BytesText(bytes / parts) +
          " would do, and its gradient and moments likewise",
      "split a dimension over " + Quoted(reduced.axis) +
          ", if gathering the weight before use costs less than the memory");
  finding.subject.clear();
  sink.push_back(std::move(finding));
}

void Check(const Facts& facts, FindingSink& sink) {
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
      if (std::find(sharded.begin(), sharded.end(), axis) == sharded.end()) {
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
        // What is whole on every device has a finding of its own.
        facts.Replicated(group) ||
        !Divides(facts, group, reduced->second.axis)) {
      continue;
    }
    Say(facts, *of, group, reduced->second, sink);
  }
}

}  // namespace

constinit const Lint kGradientAllReduced{
    .code = {239, "gradient-all-reduced", Level::kNote,
             "a large gradient is reduced whole over a sharded data axis"},
    .needs = kNeedsShapes | kNeedsModel,
    .what =
        "Finds parameters of a hundredth of the model or more, split over "
        "other axes, whose gradient is all_reduced over an axis of fully "
        "sharded data parallelism, though some dimension divides by it and "
        "gradients of others are reduced by reduce_scatter there. It needs a "
        "`model:` section.",
    .why =
        "The parameter, its gradient and both moments lie whole along that "
        "axis, and the reduction sends twice what scattering it would.",
    .instead = "Split another dimension over the axis.",
    .bad = {.mesh = "fsdp:2,tp:2",
            .rules = R"(version: 1
axes: {hidden_state: []}
rules:
  - match: 'embed$'
    spec: [VOCAB, null]
  - match: 'up$'
    spec: [FSDP, TP]
  - match: 'down$'
    spec: [TP, FSDP]
)" SHARDC_EXAMPLE_PAIR_SECTION,
            .manifest = SHARDC_EXAMPLE_PAIR_MANIFEST,
            .model = SHARDC_EXAMPLE_PAIR_CONFIG},
    .good = {.rules = R"(version: 1
axes: {hidden_state: []}
rules:
  - match: 'embed$'
    spec: [VOCAB, FSDP]
  - match: 'up$'
    spec: [FSDP, TP]
  - match: 'down$'
    spec: [TP, FSDP]
)" SHARDC_EXAMPLE_PAIR_SECTION},
    .check = Check};

}  // namespace shardc
