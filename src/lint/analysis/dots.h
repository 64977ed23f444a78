// Corrects patterns: escapes dots that are meant as separators, writes the
// missing lower bound of a repetition such as `{,2}`, and ends a pattern with
// `$` or `\b`.
#ifndef SHARDC_LINT_ANALYSIS_DOTS_H_
#define SHARDC_LINT_ANALYSIS_DOTS_H_

#include <optional>
#include <string>
#include <string_view>

namespace shardc {

// Returns whether a character belongs to a word, as `\w` and `\b` define it.
bool IsWord(char c);

// Escapes the dots that separate parts of a path: `mlp.up.weight` becomes
// `mlp\.up\.weight`. Returns nullopt if the pattern has no such dot.
std::optional<std::string> EscapeDots(std::string_view pattern);

// Writes the lower bound of repetitions such as `[0-9]{,2}`, which becomes
// `[0-9]{0,2}`. Both mean the same in Python's `re`, but RE2 matches `{,2}`
// literally. Returns nullopt if the pattern has no such repetition.
std::optional<std::string> WithLowerBounds(std::string_view pattern);

// Appends `$` or another assertion to a pattern. Alternatives are first put in
// a group, so `a|b` becomes `(?:a|b)$`. In `a|b$`, the `$` would belong only to
// the last alternative.
std::string WithEnd(const std::string& pattern, std::string_view end = "$");

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_DOTS_H_
