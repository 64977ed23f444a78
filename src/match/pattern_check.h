// Explains why RE2 refuses a pattern: RE2's reason, the position in the
// pattern, and a rewrite if the pattern uses a feature that Python's `re` has
// and RE2 lacks.
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
  std::string reason;  // The reason, such as "look-ahead is not part of RE2".
  std::string help;    // What to write instead; may be empty.
  size_t begin = 0;    // The error is in the bytes [begin, end) of the pattern.
  size_t end = 0;
};

// Explains an error that RE2 has reported. `error` is RE2's text, and
// `argument` the part of the pattern that the error concerns.
PatternFault ExplainFault(std::string_view pattern, std::string_view error,
                          std::string_view argument);

// Returns whether `re`, which was compiled from `pattern`, can be used. If not,
// adds a finding whose place is the position of the error in the pattern.
bool CheckPattern(const re2::RE2& re, const Pattern& pattern,
                  Findings& findings);

}  // namespace shardc

#endif  // SHARDC_MATCH_PATTERN_CHECK_H_
