// Patterns for groups of kinds: short, anchored at the end, and proven to find
// each name once, by its own group.
#ifndef SHARDC_SUGGEST_PATTERNS_H_
#define SHARDC_SUGGEST_PATTERNS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "suggest/kinds.h"

namespace shardc::suggest {

struct PatternOf {
  std::string text;             // RE2
  std::vector<uint32_t> kinds;  // that it finds, all of one group
  // Kinds whose names end with one that this anchored pattern finds, so that
  // lints take them for its optimizer states.
  std::vector<uint32_t> missed = {};
};

struct Patterns {
  std::vector<std::vector<PatternOf>> groups;  // as given
  bool proven = false;
  std::string unproven;  // a name that is found otherwise
};

// `groups` are numbers of kinds; every kind is in one of them.
Patterns PatternsOf(const Tree& tree,
                    const std::vector<std::vector<uint32_t>>& groups);

// Digit strings as a pattern that finds these and no other.
std::string NumbersPattern(std::vector<std::string> numbers);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_PATTERNS_H_
