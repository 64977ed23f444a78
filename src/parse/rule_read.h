// Reads one rule or one bundle of a rules file.
#ifndef SHARDC_PARSE_RULE_READ_H_
#define SHARDC_PARSE_RULE_READ_H_

#include <optional>

#include "model/rules.h"
#include "yaml/read.h"

namespace shardc {

// Reads one rule, whose separator the caller sets. Returns nullopt after a
// finding.
std::optional<Rule> ReadRule(const YamlContext& context, const YamlNode& node);
// Reads a list of axes, or `{axes: [...], mode: decode}`, where the mode is a
// name, or the index of the dimension whose size decides the mode. The caller
// sets name and place. Returns nullopt after a finding.
std::optional<Bundle> ReadBundle(const YamlContext& context,
                                 const YamlNode& node);

}  // namespace shardc

#endif  // SHARDC_PARSE_RULE_READ_H_
