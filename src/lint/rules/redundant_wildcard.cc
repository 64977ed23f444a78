#include <string>
#include <variant>

#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"

namespace shardc {

extern const Lint kRedundantWildcard;

namespace {

// Returns whether the rule's spec may use the text that a group of its pattern
// captures, as in `like: '\1.weight'`. Without a leading wildcard, the group
// could capture another text.
bool UsesMatch(const Rule& rule) {
  return std::holds_alternative<SpecLike>(rule.spec);
}

void CheckRedundantWildcard(const Facts& facts, FindingSink& sink) {
  for (size_t r = 0; r < facts.rules().size(); ++r) {
    const RuleFacts& rule = facts.rule_facts()[r];
    if (rule.sketch.catch_all || rule.builtin) continue;
    const std::string& pattern = facts.rules()[r].match;
    const bool leading = pattern.starts_with(".*") &&
                         !pattern.starts_with(".*?") &&
                         pattern.find('|') == std::string::npos;
    if (!leading || UsesMatch(facts.rules()[r])) continue;
    LintFinding finding = FindingAt(kRedundantWildcard.code,
                                    facts.RulePlace(static_cast<int32_t>(r)));
    finding.message = "the leading `.*` of " + Quoted(pattern) +
                      " has no effect: a pattern may match anywhere in a name";
    finding.help = "write " + Quoted(pattern.substr(2));
    sink.push_back(std::move(finding));
  }
}

}  // namespace

constinit const Lint kRedundantWildcard{
    .code = {117, "redundant-wildcard", Level::kNote,
             "a pattern begins with a wildcard that has no effect"},
    .preview = true,
    .what =
        "Finds patterns that begin with `.*`, except where the rule has "
        "`like`, which uses what the pattern matches.",
    .why =
        "A pattern may match anywhere in a name, so that the wildcard only "
        "makes it look as if it matched from the start.",
    .instead = "Remove it.",
    .bad = {.mesh = "fsdp:2,tp:4",
            .rules = R"(version: 1
rules:
  - match: '.*q_proj/kernel'
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
    .check = CheckRedundantWildcard};

}  // namespace shardc
