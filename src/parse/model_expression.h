// Reads the expressions of a `model:` section.
#ifndef SHARDC_PARSE_MODEL_EXPRESSION_H_
#define SHARDC_PARSE_MODEL_EXPRESSION_H_

#include <string_view>

#include "model/model_description.h"
#include "yaml/fields.h"

namespace shardc {

// Reads the text of an expression, which may be a number or a truth value, into
// `out`. Leaves `out` as it is after a finding, which names the node by `what`.
void ReadExpression(const YamlContext& context, const YamlNode& node,
                    std::string_view what, DescribedText& out);

}  // namespace shardc

#endif  // SHARDC_PARSE_MODEL_EXPRESSION_H_
