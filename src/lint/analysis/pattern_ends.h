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

// The parameters that a rule wins, by where the match of its pattern ends in
// their names. A group is in both lists if some matches end inside a number:
// the pattern `layers.1` ends with a word in layers.1.q, and inside one in
// layers.10.q.
struct PatternEnds {
  std::vector<uint32_t> words;    // as pattern `q` in `attn/q/kernel`
  std::vector<GroupPart> inside;  // as pattern `q` in `attn/q_norm/scale`
};

PatternEnds PatternEndsOf(const Facts& facts, size_t rule);

// Returns the rule's pattern with an assertion at its end, so that it matches
// only up to the end of a word. The assertion is `$` if the pattern then still
// matches all names of `words`, or else `\b`. Returns nullopt if it does not
// match all of them with `\b` either.
std::optional<std::string> EndedPattern(const Facts& facts, size_t rule);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_PATTERN_ENDS_H_
