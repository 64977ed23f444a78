// Writes regular expressions in RE2 syntax that match names and numbers.
#ifndef SHARDC_SUGGEST_PATTERN_TEXT_H_
#define SHARDC_SUGGEST_PATTERN_TEXT_H_

#include <string>
#include <string_view>
#include <vector>

namespace shardc::suggest {

// The parts of a name, between separators. In a part, `*` represents a number,
// and `|` separates alternatives: "gate_proj|up_proj".
using PartWords = std::vector<std::string>;

// Returns a pattern for one part. Characters that have a meaning in regular
// expressions are escaped, and `*` becomes `\d+`.
std::string Escaped(std::string_view text);
// Returns a pattern that matches exactly this text. Here `*` is escaped and is
// not a counter.
std::string EscapedName(std::string_view name);

// Returns the pattern of several parts: `(gate|up)_proj\.weight` for
// {"gate_proj|up_proj", "weight"}.
std::string WordsText(const PartWords& words, char separator);

// Returns a pattern that matches exactly these digit strings.
std::string NumbersPattern(std::vector<std::string> numbers);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_PATTERN_TEXT_H_
