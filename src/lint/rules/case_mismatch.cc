#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"

namespace shardc {

extern const Lint kCaseMismatch;

namespace {

void CheckCaseMismatch(const Facts& facts, FindingSink& sink) {
  for (size_t r = 0; r < facts.rules().size(); ++r) {
    const RuleFacts& rule = facts.rule_facts()[r];
    if (rule.cause != DeadCause::kCase) continue;
    LintFinding finding =
        FindingAt(kCaseMismatch.code, facts.RulePlace(static_cast<int32_t>(r)));
    finding.reports = {DeadRuleTopic(r)};
    finding.message =
        "rule " + Quoted(facts.rules()[r].match) +
        " matches nothing; if case is ignored, it matches " +
        Quoted(facts.Example(
            facts.groups()[static_cast<size_t>(rule.would_match)]));
    finding.help = "write the pattern in the case of the names";
    sink.push_back(std::move(finding));
  }
}

}  // namespace

constinit const Lint kCaseMismatch{
    .code = {114, "case-mismatch", Level::kWarning,
             "a rule matches only if case is ignored"},
    .what =
        "Finds rules that match no parameter, but match one if case is "
        "ignored.",
    .why = "Patterns are case sensitive.",
    .instead = "Write the pattern in the case of the names.",
    .bad = {.mesh = "fsdp:2,tp:4",
            .rules = R"(version: 1
rules:
  - match: 'attn/WQKV/kernel'
    spec: ColumnWise
  - match: 'out/kernel'
    spec: RowWise
policy: {unmatched: replicate}
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/attn/Wqkv/kernel": {"shape": [1024, 3072], "dtype": "BF16"},
  "layers/0/attn/out/kernel": {"shape": [1024, 1024], "dtype": "BF16"}}}
)"},
    .good = {.rules = R"(version: 1
rules:
  - match: 'attn/Wqkv/kernel'
    spec: ColumnWise
  - match: 'out/kernel'
    spec: RowWise
)"},
    .check = CheckCaseMismatch};

}  // namespace shardc
