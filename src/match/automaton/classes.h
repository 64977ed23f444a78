// The characters of `\d`, `\s` and `\w`.
//
// They are those of Python's `re`, which classifies the characters of Unicode.
// RE2's own classes have only ASCII characters.
#ifndef SHARDC_MATCH_AUTOMATON_CLASSES_H_
#define SHARDC_MATCH_AUTOMATON_CLASSES_H_

#include <span>

#include "match/automaton/pattern_tree.h"

namespace shardc {

std::span<const CodeRange> DigitRanges();  // `\d`: decimal digits.
std::span<const CodeRange> SpaceRanges();  // `\s`: also U+000B, U+00A0.
// `\w`: letters, numbers and `_`. Combining marks are not among them.
std::span<const CodeRange> WordRanges();

}  // namespace shardc

#endif  // SHARDC_MATCH_AUTOMATON_CLASSES_H_
