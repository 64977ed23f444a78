// Reads mesh axes from the YAML files of other systems.
#ifndef SHARDC_IMPORTERS_RULES_YAML_AXES_H_
#define SHARDC_IMPORTERS_RULES_YAML_AXES_H_

#include <optional>
#include <string_view>

#include "model/spec.h"
#include "yaml/yaml.h"

namespace shardc::imports {

// Returns the value of a key. Returns null if the node is not a mapping or does
// not contain the key.
const YamlNode* FindMember(const YamlNode& node, std::string_view key);

// Reads an axis, a list of axes, or null. Returns nullopt for other values.
std::optional<AxisGroup> ReadAxes(const YamlNode& node);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_YAML_AXES_H_
