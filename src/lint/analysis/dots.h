// Dots of a pattern that are meant as dots.
#ifndef SHARDC_LINT_ANALYSIS_DOTS_H_
#define SHARDC_LINT_ANALYSIS_DOTS_H_

#include <optional>
#include <string>
#include <string_view>

namespace shardc {

// `mlp.up.weight` to `mlp\.up\.weight`: every dot that stands alone (no
// quantifier behind it, not in a class, not escaped) between two word
// characters, groups or classes. Nothing when there is none.
std::optional<std::string> EscapeDots(std::string_view pattern);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_DOTS_H_
