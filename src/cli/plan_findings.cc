#include "cli/plan_findings.h"

#include <utility>

#include "lint/analysis/facts.h"
#include "lint/once.h"
#include "lint/rules/all.h"

namespace shardc::cli {

Findings PlanFindings(const Compiled& compiled) {
  Findings findings;
  if (!compiled.HasIllegal() && !compiled.HasUnmatched()) return findings;
  LintInputs inputs;
  inputs.compiled = &compiled;
  const Facts facts(inputs);
  FindingSink found;
  const bool refused = compiled.HasUnmatched() &&
                       compiled.Unmatched() == UnmatchedPolicy::kError;
  if (refused) {
    kOtherNaming.check(facts, found);
    kUnmatchedParameter.check(facts, found);
  }
  for (const Lint* lint :
       {&kMissingAxis, &kIndivisibleDimension, &kRepeatedAxis, &kSpecTooLong}) {
    lint->check(facts, found);
  }
  for (Finding& finding : OnceEach(std::move(found))) {
    // What the policy corrected is in the plan.
    if (finding.level == Level::kError) findings.Add(std::move(finding));
  }
  return findings;
}

}  // namespace shardc::cli
