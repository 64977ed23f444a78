#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"

namespace shardc {

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

}  // namespace shardc
