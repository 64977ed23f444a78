// Reports large gradients that are all-reduced over an axis of fully sharded
// data parallelism (FSDP). If the parameter is sharded over such an axis, its
// gradient is reduce-scattered. Otherwise its gradient is all-reduced, which
// sends twice as many bytes. Below, `d:fsdp` is dimension d, sharded over fsdp:
//
//   q    [n h, d:fsdp]   its gradient is reduce-scattered over fsdp
//   head [v:tp, d]       its gradient is all-reduced over fsdp
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
#include "lint/rules/all.h"
#include "source/wording.h"

namespace shardc {
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
        // Another lint reports parameters that are replicated on all devices.
        facts.Replicated(group) ||
        !Divides(facts, group, reduced->second.axis)) {
      continue;
    }
    Report(facts, *of, group, reduced->second, sink);
  }
}

}  // namespace shardc
