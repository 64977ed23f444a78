// Why RE2 refuses a pattern: RE2's reason, the position in the pattern, and a
// rewrite for what Python's `re` supports and RE2 does not.
#ifndef SHARDC_MATCH_PATTERN_CHECK_H_
#define SHARDC_MATCH_PATTERN_CHECK_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "match/match.h"
#include "source/finding.h"

namespace re2 {
class RE2;
}

namespace shardc {

struct PatternFault {
  std::string reason;  // "look-ahead is not supported by RE2"
  std::string help;    // a rewrite, or empty
  size_t begin = 0;    // byte range inside the pattern
  size_t end = 0;
};

// Explains the refusal of a pattern by RE2 with `error` about the text
// `argument`.
PatternFault ExplainFault(std::string_view pattern, std::string_view error,
                          std::string_view argument);

// Whether `re`, compiled from `pattern`, can be used; if not, a finding at the
// position inside the pattern.
bool CheckPattern(const re2::RE2& re, const Pattern& pattern,
                  Findings& findings);

}  // namespace shardc

#endif  // SHARDC_MATCH_PATTERN_CHECK_H_
