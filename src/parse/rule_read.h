// One rule and one bundle of a rules file.
#ifndef SHARDC_PARSE_RULE_READ_H_
#define SHARDC_PARSE_RULE_READ_H_

#include <optional>

#include "model/rules.h"
#include "yaml/read.h"

namespace shardc {

// The caller fills in the separator.
std::optional<Rule> ReadRule(const YamlContext& context, const YamlNode& node);
// A list of axes, or `{axes: [...], mode: decode}` where the mode is a name
// or the dimension whose length tells it. The caller fills in name and place.
std::optional<Bundle> ReadBundle(const YamlContext& context,
                                 const YamlNode& node);

}  // namespace shardc

#endif  // SHARDC_PARSE_RULE_READ_H_
