// Corrects patterns: escapes dots that are meant as separators, and ends a
// pattern with `$` or `\b`.
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

// Ends a pattern with `$` or another assertion. Alternatives become a group: in
// `a|b$` the `$` would end the last alternative only, so `a|b` becomes
// `(?:a|b)$`.
std::string WithEnd(const std::string& pattern, std::string_view end = "$");

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_DOTS_H_
