// Policies in a rules file, its own or one rule's.
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

// `weight_decay: {exclude: ['norm', 'bias$']}`; nothing where it says none.
WeightDecayExclusions ReadWeightDecay(const YamlContext& context,
                                      const YamlNode& node);

}  // namespace shardc

#endif  // SHARDC_PARSE_POLICY_READ_H_
