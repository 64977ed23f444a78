// Parses patterns in RE2's syntax.
#ifndef SHARDC_MATCH_AUTOMATON_PATTERN_READER_H_
#define SHARDC_MATCH_AUTOMATON_PATTERN_READER_H_

#include <optional>
#include <string_view>

#include "match/automaton/pattern_tree.h"

namespace shardc {

// Parses a pattern that RE2 accepts. Returns nullopt if the pattern uses a
// feature that this parser does not support: `\pL` and other Unicode groups,
// `\C`, `\Q`, octal escapes, ignoring the case of characters above ASCII, very
// deep groups or very large classes.
std::optional<PatternTree> ReadPatternTree(std::string_view pattern);

}  // namespace shardc

#endif  // SHARDC_MATCH_AUTOMATON_PATTERN_READER_H_
