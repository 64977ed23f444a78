// Lints about the expert axis: experts that it does not shard, and tokens that
// it does not shard.
//
//   batch over dp, experts over ep 4  ->  each token is on 4 devices
#include <algorithm>
#include <string>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/pattern_faults.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"
#include "source/list.h"
#include "source/wording.h"

namespace shardc {

// Reports large experts that are neither sharded over the expert axis nor
// placed at one coordinate of an axis. Several rules with this fault usually
// have one cause. Therefore one finding covers all experts that have separate
// tensors. Stacks of experts share a finding if the same dimension of the stack
// counts experts.
//
//   ep 4, experts [8, 1024, 4096] over [null, fsdp, tp]
//     ->  reported, because ep shards no dimension
namespace {

// Returns whether each expert has its own tensor, and experts are not stacked
// in one tensor.
bool IsSingle(const ParameterGroup& group) {
  return group.name.find("experts/*") != std::string::npos ||
         group.name.find("experts.*") != std::string::npos;
}

// Returns the dimension of a stack that counts the experts. It is the first
// dimension that does not count scanned layers: 1 in [layers, experts, in,
// out].
int ExpertDim(const Facts& facts, const LayerStacks& stacks,
              const ParameterGroup& group) {
  const std::vector<int> dims = UnscannedDims(facts, stacks, group);
  return dims.empty() ? 0 : dims.front();
}

LintFinding Report(const Facts& facts, const ParameterGroup& group,
                   const AxisGroup& experts, int dim) {
  const bool single = IsSingle(group);
  const std::string after =
      " not split over the expert axis: every one of the " +
      std::to_string(facts.mesh().Parts(experts).value_or(1)) +
      " coordinates of " + GroupText(experts) + " holds all of them";
  LintFinding finding = GroupFinding(
      facts, kExpertAxis.code, group,
      ParametersText(facts, group) + " " + std::string(IsAre(group.count())) +
          after,
      single ? "give the rule a `place` on the expert axis"
             : "split " +
                   (dim == 0 ? "the first dimension"
                             : "dimension " + std::to_string(dim)) +
                   " over EXPERT");
  finding.several = {single ? "single" : "stacked in " + std::to_string(dim),
                     "", " are" + after};
  for (const std::string& axis : experts) {
    finding.reports.push_back(UnusedAxisTopic(axis));
  }
  // If a catch-all replicates the experts, another lint reports that, and this
  // finding is redundant.
  if (group.rule >= 0 && facts.Replicated(group)) {
    finding.unless = {CatchAllTopic(static_cast<size_t>(group.rule))};
  }
  return finding;
}

}  // namespace

void CheckExpertAxis(const Facts& facts, FindingSink& sink) {
  const AxisGroup experts = facts.ExpertAxes();
  if (facts.mesh().Parts(experts).value_or(1) <= 1) return;
  const LayerStacks& stacks = facts.stacks();
  for (const ParameterGroup& group : facts.groups()) {
    if (!group.role.expert || !facts.Judged(group) ||
        facts.Elements(group) < kLargeElements) {
      continue;
    }
    if (!IsSingle(group) && facts.Rank(group) < 3) continue;
    if (IsPlaced(facts, group) || SplitOver(facts, group, experts)) continue;
    sink.push_back(
        Report(facts, group, experts, ExpertDim(facts, stacks, group)));
  }
}

// Reports expert axes that shard no tokens. Tokens are sharded over the axes of
// batch and sequence. If the expert axis is one of these axes, an all_to_all
// exchanges the tokens. Otherwise all coordinates of the expert axis hold the
// same tokens. An expert axis that is tensor parallel is not reported:
//
//   batch over dp and fsdp, experts over ep 4  ->  4 copies of each token
namespace {

bool Holds(const AxisGroup& axes, const std::string& axis) {
  return IsAmong(axis, axes);
}

// Returns the expert axes that shard no tokens. Tensor-parallel axes and axes
// of size 1 are omitted.
AxisGroup Outside(const Facts& facts) {
  const AxisGroup tokens = facts.TokenAxes();
  AxisGroup out;
  for (const std::string& axis : facts.ExpertAxes()) {
    if (Holds(tokens, axis) || facts.TensorParts({axis}) > 1) continue;
    if (facts.mesh().Parts({axis}).value_or(1) > 1) out.push_back(axis);
  }
  return out;
}

}  // namespace

void CheckExpertsOutsideBatch(const Facts& facts, FindingSink& sink) {
  const AxisGroup outside = Outside(facts);
  if (outside.empty()) return;
  const auto groups = facts.groups();
  const bool any =
      std::any_of(groups.begin(), groups.end(), [&](const auto& group) {
        return group.role.expert && facts.Judged(group) &&
               (IsPlaced(facts, group) || SplitOver(facts, group, outside));
      });
  if (!any) return;
  const RuleSet& rules = facts.compiled().rules;
  const int64_t copies = facts.mesh().Parts(outside).value_or(1);
  LintFinding finding = FindingAt(kExpertsOutsideBatch.code, facts.MeshPlace());
  finding.level = Level::kNote;
  // If the axes of the batch are defaults, the finding is only a note. If a
  // file sets the axis rule of the batch, the finding has the code's level.
  if (rules.axes.Given(AxisRule::kBatch)) {
    finding.level = finding.code->level;
    finding.place = rules.axes_places[static_cast<size_t>(AxisRule::kBatch)];
  }
  finding.message = "experts are split over " + GroupText(outside) +
                    ", which splits no tokens: each of its " +
                    std::to_string(copies) +
                    " coordinates has the same tokens, attention is computed " +
                    std::to_string(copies) +
                    " times, and every token is all-reduced instead of "
                    "exchanged by an all_to_all";
  if (const Registration* own = facts.OverrideOf("BATCH")) {
    finding.place = own->place;
    finding.level = finding.code->level;
    finding.help = "add " + GroupText(outside) +
                   " to the rule of this registration, or ignore this if it is "
                   "intended";
    sink.push_back(std::move(finding));
    return;
  }
  std::string list;
  AxisGroup batch = rules.axes.Value(AxisRule::kBatch).axes;
  batch.insert(batch.end(), outside.begin(), outside.end());
  for (const std::string& axis : batch) {
    AppendItem(list, ", ", axis);
  }
  finding.help =
      "write `axes: {batch: [" + list + "]}`, or ignore this if it is intended";
  sink.push_back(std::move(finding));
}

}  // namespace shardc
