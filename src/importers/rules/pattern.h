// Translates other systems' patterns to RE2 patterns that are searched.
#ifndef SHARDC_IMPORTERS_RULES_PATTERN_H_
#define SHARDC_IMPORTERS_RULES_PATTERN_H_

#include <span>
#include <string>
#include <string_view>

namespace shardc::imports {

// Escapes a literal text: `a.b` to `a\.b`.
std::string Literal(std::string_view text);
// Returns `^name$`, escaped.
std::string EntireName(std::string_view name);
// Translates Python's fnmatch, which matches entire names: `*.q_proj.*`.
std::string FromGlob(std::string_view glob);
// Translates a Python pattern where RE2's syntax differs (`\Z`).
std::string FromPython(std::string_view pattern);
// Matches consecutive parts of a path against the patterns in turn, each of
// them completely: (`attn`, `(q|k)`) becomes
// `(?:^|/)(?:attn)/(?:(q|k))(?:/|$)`. No pattern can match across a separator.
std::string FromParts(std::span<const std::string> parts, char separator);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_PATTERN_H_
