// Mesh axes in other systems' YAML.
#ifndef SHARDC_IMPORTERS_RULES_YAML_AXES_H_
#define SHARDC_IMPORTERS_RULES_YAML_AXES_H_

#include <optional>
#include <string_view>

#include "model/spec.h"
#include "yaml/yaml.h"

namespace shardc::imports {

// The value of a key; null where a mapping lacks it or there is no mapping.
const YamlNode* FindMember(const YamlNode& node, std::string_view key);

// An axis, a list of axes, or nothing.
std::optional<AxisGroup> ReadAxes(const YamlNode& node);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_YAML_AXES_H_
