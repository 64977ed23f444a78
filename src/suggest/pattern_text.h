// Texts of regular expressions (RE2) for names and numbers.
#ifndef SHARDC_SUGGEST_PATTERN_TEXT_H_
#define SHARDC_SUGGEST_PATTERN_TEXT_H_

#include <string>
#include <string_view>
#include <vector>

namespace shardc::suggest {

// A part of a name in which `*` stands for a number; alternatives are separated
// by `|`: "gate_proj|up_proj".
using PartWords = std::vector<std::string>;

// Returns a pattern for the part: characters with a meaning in regular
// expressions are escaped, and `*` becomes `\d+`.
std::string Escaped(std::string_view text);
// Escapes `*` as well.
std::string EscapedName(std::string_view name);

// The pattern of several parts: {"gate_proj|up_proj", "weight"} is
// `(gate|up)_proj\.weight`.
std::string WordsText(const PartWords& words, char separator);

// A pattern that matches these digit strings and no others.
std::string NumbersPattern(std::vector<std::string> numbers);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_PATTERN_TEXT_H_
