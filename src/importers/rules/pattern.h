// Translates other systems' patterns to RE2 patterns, which are searched in a
// name.
#ifndef SHARDC_IMPORTERS_RULES_PATTERN_H_
#define SHARDC_IMPORTERS_RULES_PATTERN_H_

#include <span>
#include <string>
#include <string_view>

namespace shardc::imports {

// Returns a pattern that matches the text literally: `a\.b` for `a.b`.
std::string Literal(std::string_view text);
// Returns the pattern `^name$` with the name escaped.
std::string EntireName(std::string_view name);
// Translates Python's fnmatch, which matches entire names: `*.q_proj.*`.
std::string FromGlob(std::string_view glob);
// Translates a Python pattern, whose syntax differs from RE2's in details such
// as `\Z` and `{,3}`.
std::string FromPython(std::string_view pattern);
// Returns a pattern that matches consecutive parts of a path, the first part by
// the first pattern and so on. Each pattern must match a complete part:
// (`attn`, `(q|k)`) becomes `(?:^|/)(?:attn)/(?:(q|k))(?:/|$)`. Dots and
// negated classes in the patterns do not match the separator.
std::string FromParts(std::span<const std::string> parts, char separator);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_PATTERN_H_
