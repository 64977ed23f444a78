// Experts that the expert axis leaves alone have one cause, however many rules
// they are by: one finding for stacks, one for single tensors.
//
//   ep 4, experts [8, 1024, 4096] over [null, fsdp, tp]  ->  told
#include <set>
#include <span>
#include <string>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/analysis/fall_through.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"

namespace shardc {
namespace {

bool Names(const AxisGroup& axes, const AxisGroup& wanted) {
  for (const std::string& axis : axes) {
    for (const std::string& one : wanted) {
      if (axis == one) return true;
    }
  }
  return false;
}

// One tensor for each expert, not a stack of them.
bool IsSingle(const ParameterGroup& group) {
  return group.name.find("experts/*") != std::string::npos ||
         group.name.find("experts.*") != std::string::npos;
}

// Experts of some rules; the first is the place, the others labels.
void Say(const Facts& facts, std::span<const ParameterGroup* const> groups,
         const AxisGroup& experts, FindingSink& sink) {
  const ParameterGroup& first = *groups.front();
  LintFinding finding = GroupFinding(
      facts, kExpertAxis.code, first, "",
      IsSingle(first) ? "give the rule a `place` on the expert axis"
                      : "split the first dimension over EXPERT");
  finding.subject.clear();
  finding.params.clear();
  std::vector<std::string> texts;
  std::set<int32_t> rules = {first.rule};
  for (const ParameterGroup* group : groups) {
    texts.push_back(ParametersText(facts, *group));
    for (std::string& name : facts.Names(*group)) {
      finding.params.push_back(std::move(name));
    }
    if (rules.insert(group->rule).second) {
      finding.labels.push_back({facts.GroupPlace(*group), "and here"});
    }
    // A catch-all's share has a lint of its own.
    if (group->rule >= 0 && facts.Replicated(*group)) {
      finding.unless.push_back(CatchAllTopic(static_cast<size_t>(group->rule)));
    }
  }
  if (finding.unless.size() < groups.size()) finding.unless.clear();
  for (const std::string& axis : experts) {
    finding.tells.push_back(UnusedAxisTopic(axis));
  }
  finding.message =
      ListText(texts) + " " +
      std::string(IsAre(static_cast<int64_t>(finding.params.size()))) +
      " not split over the expert axis: every one of the " +
      std::to_string(facts.mesh().Parts(experts).value_or(1)) +
      " coordinates of " + GroupText(experts) + " holds all experts";
  sink.push_back(std::move(finding));
}

void Check(const Facts& facts, FindingSink& sink) {
  const AxisGroup experts =
      facts.compiled().rules.axes.Value(AxisRule::kExpert).axes;
  if (facts.mesh().Parts(experts).value_or(1) <= 1) return;
  std::vector<const ParameterGroup*> single;
  std::vector<const ParameterGroup*> stacked;
  for (const ParameterGroup& group : facts.groups()) {
    if (!group.role.expert || !facts.Judged(group) ||
        facts.Elements(group) < kLargeElements) {
      continue;
    }
    if (!IsSingle(group) && facts.Rank(group) < 3) continue;
    bool anywhere = false;
    for (const AxisGroup& axes : facts.Train(group).spec) {
      anywhere = anywhere || Names(axes, experts);
    }
    const bool placed = facts.plan()
                            .params[facts.Members(group).front()]
                            .coordinate.has_value();
    if (placed || anywhere) continue;
    (IsSingle(group) ? single : stacked).push_back(&group);
  }
  for (const auto& groups : {single, stacked}) {
    if (!groups.empty()) Say(facts, groups, experts, sink);
  }
}

}  // namespace

constinit const Lint kExpertAxis{
    .code = {216, "expert-axis", Level::kWarning,
             "experts are not split over the expert axis"},
    .needs = kNeedsShapes,
    .what =
        "Finds experts, stacked or single, that neither their spec nor a "
        "`place` puts on the expert axis, on a mesh where that axis has a "
        "size.",
    .why =
        "The expert axis then divides nothing: all of its coordinates hold "
        "every expert.",
    .instead = "Split the expert dimension, or place single experts.",
    .bad = {.mesh = "ep:4,tp:2",
            .rules = R"(version: 1
rules:
  - match: 'experts/up_proj/kernel'
    spec: [null, FSDP, TP]
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/mlp/experts/up_proj/kernel": {"shape": [8, 1024, 4096], "dtype": "BF16"}}}
)"},
    .good = {.rules = R"(version: 1
rules:
  - match: 'experts/up_proj/kernel'
    spec: [EXPERT, FSDP, TP]
)"},
    .check = Check};

}  // namespace shardc
