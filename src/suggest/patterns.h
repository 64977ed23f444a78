// Makes the `match:` patterns of suggested rules. They are short and end with
// `$`. If Patterns::proven is set, each name is matched exactly once, by a
// pattern of its own rule.
#ifndef SHARDC_SUGGEST_PATTERNS_H_
#define SHARDC_SUGGEST_PATTERNS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "suggest/parameter_groups.h"

namespace shardc::suggest {

struct PatternOf {
  std::string text;  // RE2
  // The groups that it matches; all are in one rule group.
  std::vector<uint32_t> groups;
  // Groups of other parameters whose names end in a name that the pattern
  // matches, as encoder.embed ends in embed. The pattern begins with `^` and
  // does not match them. Names of optimizer states, such as opt_state.mu.embed,
  // have the same form, so linting may report these groups as states that the
  // pattern misses (SHD118).
  std::vector<uint32_t> missed = {};
};

struct Patterns {
  std::vector<std::vector<PatternOf>> rule_groups;  // in the given order
  bool proven = false;
  // If `proven` is false: the message for a name that is not matched exactly
  // once, by a pattern of its own rule; or the reason why the patterns cannot
  // be tested.
  std::string unproven;
};

// Makes patterns for rules. Each of `rule_groups` has the indices of parameter
// groups with one spec; every group of the tree must be in exactly one of them.
Patterns PatternsOf(const Tree& tree,
                    const std::vector<std::vector<uint32_t>>& rule_groups);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_PATTERNS_H_
