#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/repeats.h"
#include "lint/rules/lint.h"

namespace shardc {

extern const Lint kConflictingRules;

namespace {

void CheckConflictingRules(const Facts& facts, FindingSink& sink) {
  for (const Repeat& repeat : RepeatsOf(facts)) {
    if (repeat.same_spec) continue;
    LintFinding finding =
        FindingAt(kConflictingRules.code, facts.RulePlace(repeat.later));
    finding.message =
        "pattern " +
        Quoted(facts.rules()[static_cast<size_t>(repeat.later)].match) +
        " is that of an earlier rule with another spec: this rule is never "
        "used";
    finding.labels.push_back(
        {facts.RulePlace(repeat.first), "the earlier rule"});
    finding.help = "keep the rule with the correct spec, and remove the other";
    sink.push_back(std::move(finding));
  }
}

}  // namespace

constinit const Lint kConflictingRules{
    .code = {108, "conflicting-rules", Level::kError,
             "the same pattern is written twice with different specs"},
    .what =
        "Finds rules with the pattern of an earlier rule in the same file and "
        "another spec.",
    .why =
        "The first match wins, so that the second spec is never used, and one "
        "of the two is not what was intended.",
    .instead = "Keep the correct one.",
    .bad = {.mesh = "fsdp:2,tp:4",
            .rules = R"(version: 1
rules:
  - match: 'lm_head/kernel'
    spec: ColumnWise
  - match: 'lm_head/kernel'
    spec: RowWise
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "lm_head/kernel": {"shape": [1024, 32000], "dtype": "BF16"}}}
)"},
    .good = {.rules = R"(version: 1
rules:
  - match: 'lm_head/kernel'
    spec: ColumnWise
)"},
    .check = CheckConflictingRules};

}  // namespace shardc
