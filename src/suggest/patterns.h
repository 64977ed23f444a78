// Makes the `match:` patterns of suggested rules. They are short and end with
// `$`. If Patterns::proven is true, exactly one pattern matches each name, and
// it is a pattern of the name's own rule.
#ifndef SHARDC_SUGGEST_PATTERNS_H_
#define SHARDC_SUGGEST_PATTERNS_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
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

// The parts of a name, between separators. In a part, `*` represents a number,
// and `|` separates alternatives: "gate_proj|up_proj".
using PartWords = std::vector<std::string>;

// Returns a pattern for one part. Characters that have a meaning in regular
// expressions are escaped, and `*` becomes `\d+`.
std::string Escaped(std::string_view text);
// Returns a pattern that matches exactly this text. Here `*` is escaped and is
// not a counter.
std::string EscapedName(std::string_view name);

// Returns the pattern of several parts: `(gate|up)_proj\.weight` for
// {"gate_proj|up_proj", "weight"}.
std::string WordsText(const PartWords& words, char separator);

// Returns a pattern that matches exactly these digit strings.
std::string NumbersPattern(std::vector<std::string> numbers);

// A name must be matched by exactly one pattern, of its own rule. Returns the
// message for a name that breaks this. `matches` is the number of patterns that
// match the name. If it is 1, the pattern is of another rule.
std::string MatchFault(std::string_view name, size_t matches);

// Matches all patterns with all names. Returns the groups that must change:
// - groups whose pattern matches a name of another group
// - groups with a name that no pattern matches
// Only the first such name of each group is examined. The message for one of
// these names is stored in `patterns.unproven`. If the patterns cannot be
// compiled, the reason is stored there. {0} is then returned, because an empty
// set would mean that the patterns are proven.
std::set<uint32_t> Disprove(const Tree& tree, Patterns& patterns);

// Sets `missed` of each pattern that begins with `^`. A name that ends in the
// name of a matched parameter may be an optimizer state of this parameter. If
// the pattern does not match it, the parameter group of the state is added to
// `missed`. For example, `^w$` matches `w`, but not the state `opt_state.w`.
void FindMissed(const Tree& tree, Patterns& patterns);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_PATTERNS_H_
