// Reads one rule or one bundle (a named set of specs) of a rules file.
#ifndef SHARDC_PARSE_RULE_READ_H_
#define SHARDC_PARSE_RULE_READ_H_

#include <optional>

#include "model/rules.h"
#include "yaml/read.h"

namespace shardc {

// Reads one rule. The caller sets the separator of the rule. Returns nullopt
// after a finding.
std::optional<Rule> ReadRule(const YamlContext& context, const YamlNode& node);
// Reads a bundle, which is a list of axes, or `{axes: [...], mode: decode}`.
// The mode is a name, or the index of a dimension: if this dimension of a
// tensor has size 1, the mode is decode. The caller sets the name and the place
// of the bundle. Returns nullopt after a finding.
std::optional<Bundle> ReadBundle(const YamlContext& context,
                                 const YamlNode& node);

}  // namespace shardc

#endif  // SHARDC_PARSE_RULE_READ_H_
