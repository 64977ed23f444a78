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
  uint32_t high = 0;  // inclusive
  auto operator<=>(const CodeRange&) const = default;
};

// Canonical sets: ascending ranges that neither overlap nor touch.
using CharSet = std::vector<CodeRange>;

CharSet Canonical(std::vector<CodeRange> ranges);
CharSet Complement(const CharSet& set);
bool Contains(const CharSet& set, uint32_t point);

// Appends `range` to `out`, and the characters that RE2 matches with a
// character of the range when it ignores case: `k` adds `K` and the Kelvin
// sign, `s` adds `S` and the long s. Returns false, and appends nothing, for
// ranges that reach above ASCII, which would need Unicode tables.
bool AddFolded(CodeRange range, std::vector<CodeRange>& out);

}  // namespace shardc

#endif  // SHARDC_MATCH_AUTOMATON_CHAR_SET_H_
