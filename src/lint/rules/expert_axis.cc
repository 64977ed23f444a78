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

void Check(const Facts& facts, FindingSink& sink) {
  const AxisGroup experts =
      facts.compiled().rules.axes.Value(AxisRule::kExpert).axes;
  if (facts.mesh().Parts(experts).value_or(1) <= 1) return;
  for (const ParameterGroup& group : facts.groups()) {
    if (!group.role.expert || !facts.Judged(group) ||
        facts.Elements(group) < kLargeElements) {
      continue;
    }
    const bool single = group.name.find("experts/*") != std::string::npos ||
                        group.name.find("experts.*") != std::string::npos;
    const int rank = facts.Rank(group);
    if (!single && rank < 3) continue;
    bool anywhere = false;
    for (const AxisGroup& axes : facts.Train(group).spec) {
      anywhere = anywhere || Names(axes, experts);
    }
    const bool placed = facts.plan()
                            .params[facts.Members(group).front()]
                            .coordinate.has_value();
    if (placed || anywhere) continue;
    LintFinding finding = GroupFinding(
        facts, kExpertAxis.code, group,
        ParametersText(facts, group) + " " + std::string(IsAre(group.count())) +
            " not split over the expert axis: every one of the " +
            std::to_string(facts.mesh().Parts(experts).value_or(1)) +
            " coordinates of " + GroupText(experts) + " holds all experts",
        single ? "give the rule a `place` on the expert axis"
               : "split the first dimension over EXPERT");
    if (group.rule >= 0 && facts.Replicated(group)) {
      finding.unless = {CatchAllTopic(static_cast<size_t>(group.rule))};
    }
    sink.push_back(std::move(finding));
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
