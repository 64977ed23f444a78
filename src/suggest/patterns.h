// Makes the `match:` patterns of suggested rules. They are short and end with
// `$`. If Patterns::proven is true, exactly one pattern matches each name, and
// it is a pattern of the name's own rule.
#ifndef SHARDC_SUGGEST_PATTERNS_H_
#define SHARDC_SUGGEST_PATTERNS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "suggest/parameter_groups.h"

namespace shardc::suggest {

struct PatternOf {
  std::string text;  // a regular expression in RE2 syntax
  // The parameter groups whose names the pattern matches. All of them have the
  // same spec.
  std::vector<uint32_t> groups;
  // Groups that linting may report as optimizer states that the pattern misses
  // (SHD118). For example, `^embed$` matches `embed` and misses encoder.embed,
  // whose name ends in `embed`. The name opt_state.mu.embed of an optimizer
  // state has the same form.
  std::vector<uint32_t> missed = {};
};

struct Patterns {
  // Indexed as `rule_groups`, the argument of PatternsOf().
  std::vector<std::vector<PatternOf>> rule_groups;
  bool proven = false;
  // If `proven` is false, the reason. It is the message for a name that is not
  // matched by exactly one pattern of its own rule, or it states why the
  // patterns cannot be tested.
  std::string unproven;
};

// Makes the patterns of all rules. Each element of `rule_groups` has the
// indices of parameter groups with one spec. Every group of the tree must be in
// exactly one element.
Patterns PatternsOf(const Tree& tree,
                    const std::vector<std::vector<uint32_t>>& rule_groups);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_PATTERNS_H_
