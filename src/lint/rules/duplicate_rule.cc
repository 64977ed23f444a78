#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/repeats.h"
#include "lint/rules/lint.h"

namespace shardc {

extern const Lint kDuplicateRule;

namespace {

void CheckDuplicateRule(const Facts& facts, FindingSink& sink) {
  for (const Repeat& repeat : RepeatsOf(facts)) {
    if (!repeat.same_spec) continue;
    LintFinding finding =
        FindingAt(kDuplicateRule.code, facts.RulePlace(repeat.later));
    finding.message =
        "pattern " +
        Quoted(facts.rules()[static_cast<size_t>(repeat.later)].match) +
        " is that of an earlier rule with the same spec: this rule is never "
        "used";
    finding.labels.push_back(
        {facts.RulePlace(repeat.first), "the earlier rule"});
    finding.help = "remove this rule";
    sink.push_back(std::move(finding));
  }
}

}  // namespace

constinit const Lint kDuplicateRule{
    .code = {107, "duplicate-rule", Level::kWarning,
             "the same pattern is written twice with the same spec"},
    .what =
        "Finds rules with the pattern and the spec of an earlier rule in the "
        "same file.",
    .why =
        "The second is never used, so that editing it alone changes nothing.",
    .instead =
        "Keep one. `--fix` removes the second, unless it is in flow "
        "style.",
    .bad = {.mesh = "fsdp:2,tp:4",
            .rules = R"(version: 1
rules:
  - match: 'kernel'
    spec: ColumnWise
  - match: 'kernel'
    spec: ColumnWise
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/q_proj/kernel": {"shape": [1024, 1024], "dtype": "BF16"}}}
)"},
    .good = {.rules = R"(version: 1
rules:
  - match: 'kernel'
    spec: ColumnWise
)"},
    .check = CheckDuplicateRule};

}  // namespace shardc
