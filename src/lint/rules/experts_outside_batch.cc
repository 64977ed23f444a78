// Reports expert axes that shard no tokens. Tokens are sharded over the axes of
// batch and sequence. If the expert axis is one of these axes, an all_to_all
// exchanges the tokens. Otherwise all coordinates of the expert axis hold the
// same tokens. An expert axis that is tensor parallel is not reported:
//
//   batch over dp and fsdp, experts over ep 4  ->  4 copies of each token
#include <algorithm>
#include <string>

#include "lint/analysis/facts.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"

namespace shardc {
namespace {

bool Holds(const AxisGroup& axes, const std::string& axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

// Returns the expert axes that shard no tokens. Tensor-parallel axes and axes
// of size 1 are omitted.
AxisGroup Outside(const Facts& facts) {
  AxisGroup tokens;
  for (const char* name : {"BATCH", "LENGTH", "QUERY_LENGTH"}) {
    const AxisGroup more = facts.LogicalAxes(name);
    tokens.insert(tokens.end(), more.begin(), more.end());
  }
  AxisGroup out;
  for (const std::string& axis : facts.LogicalAxes("EXPERT")) {
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
    list += (list.empty() ? "" : ", ") + axis;
  }
  finding.help =
      "write `axes: {batch: [" + list + "]}`, or ignore this if it is intended";
  sink.push_back(std::move(finding));
}

}  // namespace shardc
