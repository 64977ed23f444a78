#include "parse/model_expression.h"

#include <string>

#include "yaml/read.h"

namespace shardc {

void ReadExpression(const YamlContext& context, const YamlNode& node,
                    std::string_view what, DescribedText& out) {
  if (!node.IsScalar() || node.text.empty()) {
    context.Add(
        code::kSchema, node,
        std::string(what) + " is " + Describe(node) + ", not an expression",
        "write a key of the config.json or a formula of them");
    return;
  }
  if (RefuseTag(context, node)) return;
  out = {node.text, context.document.PlaceOf(node)};
}

}  // namespace shardc
