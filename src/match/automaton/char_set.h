// Sets of code points, for character classes in patterns.
#ifndef SHARDC_MATCH_AUTOMATON_CHAR_SET_H_
#define SHARDC_MATCH_AUTOMATON_CHAR_SET_H_

#include <compare>
#include <cstdint>
#include <vector>

#include "source/utf8.h"

namespace shardc {

struct CodeRange {
  uint32_t low = 0;
  uint32_t high = 0;  // The last code point, which is part of the range.
  auto operator<=>(const CodeRange&) const = default;
};

// A set of code points: ascending ranges that neither overlap nor touch.
// Canonical() makes such a set from any ranges.
using CharSet = std::vector<CodeRange>;

CharSet Canonical(std::vector<CodeRange> ranges);
CharSet Complement(const CharSet& set);
bool Contains(const CharSet& set, uint32_t point);

// Appends to `out` the range and those characters that RE2 matches with a
// character of the range when it ignores case. `k` adds `K` and the Kelvin
// sign, `s` adds `S` and the long s. Returns false, and appends nothing, for a
// range that has characters above ASCII, because these would need Unicode
// tables.
bool AddFolded(CodeRange range, std::vector<CodeRange>& out);

}  // namespace shardc

#endif  // SHARDC_MATCH_AUTOMATON_CHAR_SET_H_
