// Translates patterns of other systems to RE2 patterns. An RE2 pattern matches
// a name if it matches any part of the name.
#ifndef SHARDC_IMPORTERS_RULES_PATTERN_H_
#define SHARDC_IMPORTERS_RULES_PATTERN_H_

#include <span>
#include <string>
#include <string_view>

namespace shardc::imports {

// Returns a pattern that matches the text literally, such as `a\.b` for `a.b`.
std::string Literal(std::string_view text);
// Returns the pattern `^name$` with the name escaped.
std::string EntireName(std::string_view name);
// Translates a pattern of Python's fnmatch, such as `*.q_proj.*`, which matches
// entire names.
std::string FromGlob(std::string_view glob);
// Translates a pattern of Python's `re`. Its syntax differs from RE2's in
// details such as `\Z` and `{,3}`.
std::string FromPython(std::string_view pattern);
// Returns a pattern for consecutive parts of a path. The first pattern must
// match the first part completely, the second pattern the second part and so
// on. For example, (`attn`, `(q|k)`) becomes
// `(?:^|/)(?:attn)/(?:(q|k))(?:/|$)`. Dots and negated classes in the patterns
// do not match the separator.
std::string FromParts(std::span<const std::string> parts, char separator);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_PATTERN_H_
