#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"

namespace shardc {

extern const Lint kScalarSpec;

namespace {

// Returns the rule's spec if it is a list. Returns null if it is, for example,
// the name of a bundle (a named set of specs). A list without axes, such as
// [null], is reported for a scalar. The bundle Replicated is not, because it
// fits any shape.
const SpecList* WrittenSpec(const Rule& rule) {
  return std::get_if<SpecList>(&rule.spec);
}

void CheckScalarSpec(const Facts& facts, FindingSink& sink) {
  for (const ParameterGroup& group : facts.groups()) {
    if (facts.Rank(group) != 0 || group.rule < 0) continue;
    const auto index = static_cast<size_t>(group.rule);
    if (facts.rule_facts()[index].sketch.catch_all) continue;
    const auto spec = facts.RuleSpec(group.rule);
    if (!spec || spec->empty()) continue;
    const bool axes = !IsReplicated(*spec);
    if (!axes && WrittenSpec(facts.rules()[index]) == nullptr) continue;
    LintFinding finding = GroupFinding(
        facts, kScalarSpec.code, group,
        ParametersText(facts, group) +
            " is a scalar, and the first rule that matches it has the spec " +
            SpecText(*spec),
        "make the pattern narrower; a scalar is replicated whatever the rules "
        "are");
    if (!axes) finding.level = Level::kNote;
    sink.push_back(std::move(finding));
  }
}

}  // namespace

constinit const Lint kScalarSpec{
    .code = {209, "scalar-spec", Level::kWarning,
             "a rule that splits dimensions matches a scalar"},
    .needs = kNeedsShapes,
    .what =
        "Finds scalars that a rule other than a catch-all matches whose "
        "spec names axes.",
    .why =
        "A scalar is replicated whatever the rules are, so that the rule was "
        "written for another shape.",
    .instead = "Make the pattern narrower.",
    .bad = {.mesh = "fsdp:2,tp:4",
            .rules = R"(version: 1
rules:
  - match: 'logit'
    spec: [TP]
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "logit/bias": {"shape": [1024], "dtype": "F32"},
  "logit_scale": {"shape": [], "dtype": "F32"}}}
)"},
    .good = {.rules = R"(version: 1
rules:
  - match: 'logit/bias'
    spec: [TP]
)"},
    .check = CheckScalarSpec};

}  // namespace shardc
