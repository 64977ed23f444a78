// Makes RE2 patterns of names. An RE2 pattern matches a name if it matches any
// part of the name.
#ifndef SHARDC_IMPORTERS_RULES_PATTERN_H_
#define SHARDC_IMPORTERS_RULES_PATTERN_H_

#include <string>
#include <string_view>

namespace shardc::imports {

// Returns a pattern that matches the text literally, such as `a\.b` for `a.b`.
std::string Literal(std::string_view text);
// Returns the pattern `^name$` with the name escaped.
std::string EntireName(std::string_view name);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_PATTERN_H_
