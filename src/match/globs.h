// Patterns that are written as globs of a shell, where a regular expression is
// expected.
#ifndef SHARDC_MATCH_GLOBS_H_
#define SHARDC_MATCH_GLOBS_H_

#include <optional>
#include <string>
#include <string_view>

namespace shardc {

// Returns the regular expression of a pattern that has a form of globs, which a
// regular expression does not have or reads otherwise:
//
//   *.q_proj.weight      ->  .*\.q_proj\.weight
//   layers/*/attn/**     ->  layers/.*/attn/.*
//   layers.{0..31}       ->  layers\.[0-9]+
//   {q,k,v}_proj\.weight ->  (q|k|v)_proj\.weight
//
// Returns nullopt for any other pattern, `layers.*.weight` among them: it is a
// sound regular expression.
std::optional<std::string> RegexOfGlob(std::string_view pattern);

}  // namespace shardc

#endif  // SHARDC_MATCH_GLOBS_H_
