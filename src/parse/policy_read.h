// Reads policies of a complete rules file or of a single rule.
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

// Reads the exclusions from weight decay, such as `weight_decay: {exclude:
// ['norm', 'bias$']}`. Returns nullopt if `exclude` is absent or null, or after
// a finding.
WeightDecayExclusions ReadWeightDecay(const YamlContext& context,
                                      const YamlNode& node);

}  // namespace shardc

#endif  // SHARDC_PARSE_POLICY_READ_H_
