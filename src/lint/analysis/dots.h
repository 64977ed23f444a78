// Unescaped dots of a pattern that are meant as separators.
#ifndef SHARDC_LINT_ANALYSIS_DOTS_H_
#define SHARDC_LINT_ANALYSIS_DOTS_H_

#include <optional>
#include <string>
#include <string_view>

namespace shardc {

// `mlp.up.weight` to `mlp\.up\.weight`: escapes every dot without a quantifier,
// not in a class and not escaped, between two word characters, groups or
// classes. Empty if there is none.
std::optional<std::string> EscapeDots(std::string_view pattern);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_DOTS_H_
