// The patterns of a list of rules, as a matcher takes them.
#ifndef SHARDC_PLAN_RULE_PATTERNS_H_
#define SHARDC_PLAN_RULE_PATTERNS_H_

#include <span>
#include <vector>

#include "match/match.h"
#include "model/rules.h"

namespace shardc {

// One for each rule; the texts are views into the rules.
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
