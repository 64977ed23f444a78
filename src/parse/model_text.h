// Parses the ops and the dimensions of a `model:` section.
#ifndef SHARDC_PARSE_MODEL_TEXT_H_
#define SHARDC_PARSE_MODEL_TEXT_H_

#include <optional>
#include <string_view>

#include "model/model_description.h"

namespace shardc {

// Parses a dimension such as `n (p+r)`, in which `n`, `p` and `r` are names.
// Returns nullopt for other texts.
std::optional<DescribedDim> ParseDescribedDim(std::string_view text);

// Parses an op of the form `name[, name] = op(argument, ...) [@role] [if
// condition]`. Returns nullopt for other texts. The condition is stored as
// text.
std::optional<DescribedLine> ParseDescribedLine(std::string_view text);

// Returns whether the text is a single name, such as the name of a block.
bool IsModelWord(std::string_view text);

}  // namespace shardc

#endif  // SHARDC_PARSE_MODEL_TEXT_H_
