// Reads policies of a rules file or of one rule.
#ifndef SHARDC_PARSE_POLICY_READ_H_
#define SHARDC_PARSE_POLICY_READ_H_

#include <optional>

#include "model/rules.h"
#include "yaml/read.h"

namespace shardc {

Policy ReadPolicy(const YamlContext& context, const YamlNode& node);
std::optional<IllegalPolicy> ReadIllegal(const YamlContext& context,
                                         const YamlNode& node);
std::optional<int64_t> ReadMinSize(const YamlContext& context,
                                   const YamlNode& node);

// Reads `weight_decay: {exclude: ['norm', 'bias$']}`; nullopt if `exclude` is
// absent or null, and after a finding.
WeightDecayExclusions ReadWeightDecay(const YamlContext& context,
                                      const YamlNode& node);

}  // namespace shardc

#endif  // SHARDC_PARSE_POLICY_READ_H_
