// Sets of code points.
#ifndef SHARDC_MATCH_AUTOMATON_CHAR_SET_H_
#define SHARDC_MATCH_AUTOMATON_CHAR_SET_H_

#include <compare>
#include <cstdint>
#include <vector>

#include "source/utf8.h"

namespace shardc {

struct CodeRange {
  uint32_t low = 0;
  uint32_t high = 0;  // included
  auto operator<=>(const CodeRange&) const = default;
};

// Ascending ranges that neither overlap nor touch, once canonical.
using CharSet = std::vector<CodeRange>;

CharSet Canonical(std::vector<CodeRange> ranges);
CharSet Complement(const CharSet& set);
bool Contains(const CharSet& set, uint32_t point);

// A range with what ignoring case adds, as RE2 folds: `k` brings the Kelvin
// sign and `s` the long s. False above ASCII, where tables would be needed.
bool AddFolded(CodeRange range, std::vector<CodeRange>& out);

}  // namespace shardc

#endif  // SHARDC_MATCH_AUTOMATON_CHAR_SET_H_
