#include <algorithm>
#include <array>
#include <string_view>

#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"

namespace shardc {
namespace {

// Parts that one model of a family has and the next has not.
constexpr std::array<std::string_view, 13> kOptional = {
    "bias",  "norm", "ln_", "lm_head",  "score", "classifier", "head",
    "embed", "wte",  "wpe", "position", "scale", "pooler"};

bool IsOptional(std::string_view pattern) {
  return std::any_of(kOptional.begin(), kOptional.end(), [&](auto word) {
    return pattern.find(word) != std::string_view::npos;
  });
}

void Check(const Facts& facts, FindingSink& sink) {
  if (facts.plan().params.empty()) return;
  for (size_t r = 0; r < facts.rule_facts().size(); ++r) {
    const RuleFacts& rule = facts.rule_facts()[r];
    if (rule.found > 0 || rule.builtin) continue;
    const std::string& pattern = facts.rules()[r].match;
    const bool optional = IsOptional(pattern);
    LintFinding finding;
    // Whoever knows why it is dead says so instead.
    finding.unless = {DeadRuleTopic(r)};
    finding.code = &kDeadRule.code;
    finding.level = optional ? Level::kNote : kDeadRule.code.level;
    finding.place = facts.RulePlace(static_cast<int32_t>(r));
    finding.message = "rule " + Quoted(pattern) + " matches no parameter";
    finding.help = optional ? "leave it out where no model of yours has one"
                            : "correct the path, or remove the rule";
    sink.push_back(std::move(finding));
  }
}

}  // namespace

constinit const Lint kDeadRule{
    .code = {105, "dead-rule", Level::kWarning, "a rule matches no parameter"},
    .what =
        "Finds rules whose pattern is found in no parameter's name. Rules "
        "for biases, norms, embeddings and heads of output, which models "
        "of a family have or not, are only noted; those of built-in "
        "packs are not mentioned.",
    .why =
        "The rule was written for something. If that has been renamed, it "
        "now falls to another rule, most often to the catch-all.",
    .instead = "Correct the pattern, or remove the rule.",
    .bad = {.mesh = "fsdp:2,tp:4",
            .rules = R"(version: 1
rules:
  - match: 'q_proj/kernel'
    spec: ColumnWise
  - match: 'w_qkv/kernel'
    spec: ColumnWise
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/q_proj/kernel": {"shape": [1024, 1024], "dtype": "BF16"}}}
)"},
    .good = {.rules = R"(version: 1
rules:
  - match: 'q_proj/kernel'
    spec: ColumnWise
)"},
    .check = Check};

}  // namespace shardc
