// Converts a list of rules to the patterns that a matcher takes.
#ifndef SHARDC_PLAN_RULE_PATTERNS_H_
#define SHARDC_PLAN_RULE_PATTERNS_H_

#include <span>
#include <vector>

#include "match/match.h"
#include "model/rules.h"

namespace shardc {

// Returns one pattern for each rule, as views into the rules.
inline std::vector<Pattern> PatternsOf(std::span<const Rule> rules) {
  std::vector<Pattern> out;
  out.reserve(rules.size());
  for (const Rule& rule : rules) {
    out.push_back({rule.match, rule.match_place, rule.separator});
  }
  return out;
}

}  // namespace shardc

#endif  // SHARDC_PLAN_RULE_PATTERNS_H_
