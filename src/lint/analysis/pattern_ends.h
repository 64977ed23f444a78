// Finds patterns that match some names up to the end of a word, and other names
// up to the middle of a word. The corrected pattern matches only the former.
#ifndef SHARDC_LINT_ANALYSIS_PATTERN_ENDS_H_
#define SHARDC_LINT_ANALYSIS_PATTERN_ENDS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lint/analysis/facts.h"

namespace shardc {

// Some parameters of one group: their indices, in ascending order.
struct GroupPart {
  const ParameterGroup* group = nullptr;
  std::vector<uint32_t> params;
};

// Where the matches of a rule's pattern end in its parameters' names: at the
// end of a word, or inside one. A group may be in both lists: `layers.1` ends
// at a word in layers.1.q, and inside one in layers.10.q. `words` may have only
// the first parameter of a group.
struct PatternEnds {
  // Indices of the parameters in whose names the match ends at the end of a
  // word. For the pattern `q`, `attn/q/kernel` is such a name.
  std::vector<uint32_t> words;
  // The parameters in whose names the match ends inside a word. For the pattern
  // `q`, `attn/q_norm/scale` is such a name.
  std::vector<GroupPart> inside;
};

PatternEnds PatternEndsOf(const Facts& facts, size_t rule);

// Returns the rule's pattern with `$` or `\b` (the end of a word) appended, so
// that a match no longer ends inside a word. It is the first of these two
// patterns that still matches all names in PatternEnds::words, or nullopt if
// neither does.
std::optional<std::string> EndedPattern(const Facts& facts, size_t rule);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_PATTERN_ENDS_H_
