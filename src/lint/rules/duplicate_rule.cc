#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/repeats.h"
#include "lint/rules/all.h"

namespace shardc {

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

}  // namespace shardc
