#include <string>
#include <variant>

#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"

namespace shardc {
namespace {

// Returns whether the rule's spec may use the text that a group of its pattern
// captures, as in `like: '\1.weight'`. Without a leading wildcard, the group
// could capture another text.
bool UsesMatch(const Rule& rule) {
  return std::holds_alternative<SpecLike>(rule.spec);
}

}  // namespace

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

}  // namespace shardc
