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

// Parameters of one group, ascending.
struct GroupPart {
  const ParameterGroup* group = nullptr;
  std::vector<uint32_t> params;
};

// The parameters that a rule wins, by where the match of its pattern ends in
// their names. A group is in both lists if the match ends in a number:
// `layers.1` ends with a word in layers.1.q, and inside one in layers.10.q.
struct PatternEnds {
  std::vector<uint32_t> words;    // `q` in `attn/q/kernel`
  std::vector<GroupPart> inside;  // `q` in `attn/q_norm/scale`
};

PatternEnds PatternEndsOf(const Facts& facts, size_t rule);

// Returns the rule's pattern with an assertion at its end, so that it matches
// only up to the end of a word: `$` if the pattern still matches all names of
// `words`, or else `\b`. Returns nullopt if a name of `words` matches neither.
std::optional<std::string> EndedPattern(const Facts& facts, size_t rule);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_PATTERN_ENDS_H_
