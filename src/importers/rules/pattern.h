// Other systems' ways of matching names as patterns that are searched.
#ifndef SHARDC_IMPORTERS_RULES_PATTERN_H_
#define SHARDC_IMPORTERS_RULES_PATTERN_H_

#include <span>
#include <string>
#include <string_view>

namespace shardc::imports {

// The characters as they are: `a.b` to `a\.b`.
std::string Literal(std::string_view text);
// `^name$`
std::string WholeName(std::string_view name);
// Python's fnmatch, of whole names: `*.q_proj.*`.
std::string FromGlob(std::string_view glob);
// A Python pattern with what RE2 spells otherwise put RE2's way (`\Z`).
std::string FromPython(std::string_view pattern);
// One part of a path against each of the patterns in turn, wherever they
// begin, each of them whole: (`attn`, `(q|k)`) to `(?:^|/)(?:attn)/(?:(q|k))
// (?:/|$)` in one line. What could run into another part is kept out of it.
std::string FromParts(std::span<const std::string> parts, char separator);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_PATTERN_H_
