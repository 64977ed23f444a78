// Patterns for groups of parameter groups: short, ending with `$`, and proven
// to match each name once, by the pattern of its own rule.
#ifndef SHARDC_SUGGEST_PATTERNS_H_
#define SHARDC_SUGGEST_PATTERNS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "suggest/parameter_groups.h"

namespace shardc::suggest {

struct PatternOf {
  std::string text;              // RE2
  std::vector<uint32_t> groups;  // that it matches, all of one rule group
  // Groups whose names end with a name that this pattern, which begins with
  // `^`, matches, so that linting takes them for its optimizer states.
  std::vector<uint32_t> missed = {};
};

struct Patterns {
  std::vector<std::vector<PatternOf>> rule_groups;  // as given
  bool proven = false;
  std::string unproven;  // a name that another pattern, or none, matches
};

// `rule_groups` are indices of parameter groups that one spec serves; every
// group of the tree is in exactly one of them.
Patterns PatternsOf(const Tree& tree,
                    const std::vector<std::vector<uint32_t>>& rule_groups);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_PATTERNS_H_
