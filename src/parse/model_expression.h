// Reads the expressions of a `model:` section. An expression is a number, a key
// of the config.json, or a formula of such keys.
#ifndef SHARDC_PARSE_MODEL_EXPRESSION_H_
#define SHARDC_PARSE_MODEL_EXPRESSION_H_

#include <string_view>

#include "model/model_description.h"
#include "yaml/fields.h"

namespace shardc {

// Reads the text of an expression into `out`. The expression may be a number or
// a truth value. After a finding, `out` is unchanged. `what` describes the node
// in the finding.
void ReadExpression(const YamlContext& context, const YamlNode& node,
                    std::string_view what, DescribedText& out);

}  // namespace shardc

#endif  // SHARDC_PARSE_MODEL_EXPRESSION_H_
