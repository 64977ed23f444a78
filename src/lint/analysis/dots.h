// Finds unescaped dots in a pattern that are meant as separators.
#ifndef SHARDC_LINT_ANALYSIS_DOTS_H_
#define SHARDC_LINT_ANALYSIS_DOTS_H_

#include <optional>
#include <string>
#include <string_view>

namespace shardc {

// Escapes the dots that separate parts of a path: `mlp.up.weight` becomes
// `mlp\.up\.weight`. Returns nullopt if the pattern has no such dot.
std::optional<std::string> EscapeDots(std::string_view pattern);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_DOTS_H_
