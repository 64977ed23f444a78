// Finds where one element of a pattern in RE2's syntax ends. An element is, for
// example, the escape `\d` or the character class `[a-z]`.
#ifndef SHARDC_MATCH_PATTERN_ATOM_H_
#define SHARDC_MATCH_PATTERN_ATOM_H_

#include <cstddef>
#include <string_view>

namespace shardc {

// Returns the offset after the part of the pattern that begins at `at`. A part
// is an escape such as `\d` or `\x{600}`, a text between `\Q` and `\E`, a
// character class or a single character. In the first three, no character is an
// operator. A part whose closing character is missing extends to the end of the
// pattern.
size_t AtomEnd(std::string_view pattern, size_t at);

}  // namespace shardc

#endif  // SHARDC_MATCH_PATTERN_ATOM_H_
