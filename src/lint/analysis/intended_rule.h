// Which rule was written for a parameter that it does not match.
#ifndef SHARDC_LINT_ANALYSIS_INTENDED_RULE_H_
#define SHARDC_LINT_ANALYSIS_INTENDED_RULE_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "lint/analysis/facts.h"

namespace shardc {

struct IntendedRule {
  int32_t rule = -1;
  int matched = 0;      // path parts that agree
  int run = 0;          // of them, from the end up to the first that does not
  std::string written;  // the part of the pattern that does not fit
  std::string found;    // what the name has there
  // The pattern with the one put for the other, where that is a plain edit.
  std::string rewrite;
};

// The rule whose path parts agree best with the group's, all but one of them:
// at least two. Dead rules come first, then those that agree in more parts,
// from the end on, then those not yet `taken` by another group, then the
// earlier one.
std::optional<IntendedRule> IntendedRuleOf(const Facts& facts,
                                           const ParameterGroup& group,
                                           bool dead_only,
                                           const std::set<int32_t>& taken = {});

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_INTENDED_RULE_H_
