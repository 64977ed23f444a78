// Patterns read as RE2 reads them.
#ifndef SHARDC_MATCH_AUTOMATON_PATTERN_READER_H_
#define SHARDC_MATCH_AUTOMATON_PATTERN_READER_H_

#include <optional>
#include <string_view>

#include "match/automaton/pattern_tree.h"

namespace shardc {

// For a pattern that RE2 accepts. Nothing where it has what is left to RE2:
// `\pL` and other Unicode groups, `\C`, `\Q`, octal escapes, ignoring the case
// of what is not ASCII, and very deep groups.
std::optional<PatternTree> ReadPatternTree(std::string_view pattern);

}  // namespace shardc

#endif  // SHARDC_MATCH_AUTOMATON_PATTERN_READER_H_
