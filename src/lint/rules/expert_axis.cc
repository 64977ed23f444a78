// Reports large experts that are neither sharded over the expert axis nor
// placed at one coordinate of an axis. Several rules with this fault usually
// have one cause. Therefore one finding covers all experts that have separate
// tensors. Stacks of experts share a finding if the same dimension of the stack
// counts experts.
//
//   ep 4, experts [8, 1024, 4096] over [null, fsdp, tp]
//     ->  reported, because ep shards no dimension
#include <string>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/analysis/fall_through.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/scanned.h"
#include "lint/rules/all.h"

namespace shardc {
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
  const AxisGroup experts = facts.LogicalAxes("EXPERT");
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

}  // namespace shardc
