#include "lint/analysis/facts.h"
#include "lint/analysis/fall_through.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"
#include "source/wording.h"

namespace shardc {

extern const Lint kUnmatchedParameter;

namespace {

void CheckUnmatchedParameter(const Facts& facts, FindingSink& sink) {
  if (facts.compiled().Unmatched() != UnmatchedPolicy::kError) return;
  for (const ParameterGroup& group : facts.groups()) {
    if (!facts.LayoutOf(group).unmatched) continue;
    LintFinding finding = GroupFinding(
        facts, kUnmatchedParameter.code, group,
        "no rule matches " + ParametersText(facts, group) +
            (facts.TotalBytes(group) > 0
                 ? ", " + BytesText(facts.TotalBytes(group)) + " in all"
                 : ""),
        "write a rule for it, or set `policy: {unmatched: replicate}`");
    // Findings without a subject are not joined. Each parameter group needs its
    // own rule, so each has its own finding.
    finding.subject.clear();
    finding.unless = {UnmatchedTopic(facts.Example(group))};
    if (const auto intended = facts.nearest().Of(group.name)) {
      finding.labels.push_back(
          {facts.RulePlace(intended->rule),
           "the nearest rule has " + Quoted(intended->written) +
               " where the name has " + Quoted(intended->found)});
      // The help names a second rule if that rule is almost as near to the
      // name.
      const auto second = facts.nearest().Of(
          group.name, NearestRules::Among::kAll, {intended->rule});
      const bool two = second && second->rule != intended->rule &&
                       second->matched >= intended->matched &&
                       EditsOf(*second) <= EditsOf(*intended) + 1;
      if (two) {
        finding.labels.push_back(
            {facts.RulePlace(second->rule),
             "as near: this rule has " + Quoted(second->written) +
                 " where the name has " + Quoted(second->found)});
      }
      if (!intended->rewrite.empty()) {
        finding.help = "was " + Quoted(intended->rewrite) +
                       (two && !second->rewrite.empty() &&
                                second->rewrite != intended->rewrite
                            ? " or " + Quoted(second->rewrite)
                            : "") +
                       " intended?";
      }
    }
    sink.push_back(std::move(finding));
  }
}

}  // namespace

constinit const Lint kUnmatchedParameter{
    .code = {104, "unmatched-parameter", Level::kError,
             "no rule matches a parameter"},
    .what =
        "Finds parameters that no rule matches, if the policy requires a rule "
        "for each, and names the nearest rule.",
    .why = "Without a rule a parameter has no spec, and no plan is written.",
    .instead = "Write a rule that matches it, above any catch-all.",
    .bad = {.mesh = "fsdp:2,tp:4",
            .rules = R"(version: 1
rules:
  - match: 'attn/q_proj/kernel'
    spec: ColumnWise
  - match: 'mlp/experts/down_proj/kernel'
    spec: RowWise
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/attn/q_proj/kernel": {"shape": [1024, 1024], "dtype": "BF16"},
  "layers/0/moe/experts/down_proj/kernel": {"shape": [4096, 1024], "dtype": "BF16"}}}
)"},
    .good = {.rules = R"(version: 1
rules:
  - match: 'attn/q_proj/kernel'
    spec: ColumnWise
  - match: 'moe/experts/down_proj/kernel'
    spec: RowWise
)"},
    .check = CheckUnmatchedParameter};

}  // namespace shardc
