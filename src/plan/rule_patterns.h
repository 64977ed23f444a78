// Converts rules to patterns for the matcher. For a pattern that is not in a
// rule, finds whether the pattern is written for names with dots or with
// slashes.
#ifndef SHARDC_PLAN_RULE_PATTERNS_H_
#define SHARDC_PLAN_RULE_PATTERNS_H_

#include <span>
#include <string_view>
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

// Returns the separator of names that a pattern outside of the rules expects:
// `.` if the pattern has an escaped dot and no slash, `/` if it has a slash and
// no escaped dot, and 0 otherwise.
inline char PatternSeparator(std::string_view pattern) {
  const bool dot = pattern.find("\\.") != std::string_view::npos;
  const bool slash = pattern.find('/') != std::string_view::npos;
  if (dot == slash) return 0;
  return dot ? '.' : '/';
}

}  // namespace shardc

#endif  // SHARDC_PLAN_RULE_PATTERNS_H_
