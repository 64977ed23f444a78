#include "importers/rules/yaml_axes.h"

namespace shardc::imports {

const YamlNode* FindMember(const YamlNode& node, std::string_view key) {
  for (const YamlMember& member : node.members) {
    if (member.key.text == key) return &member.value;
  }
  return nullptr;
}

std::optional<AxisGroup> ReadAxes(const YamlNode& node) {
  AxisGroup axes;
  if (node.IsNull()) return axes;
  if (node.IsScalar()) {
    if (!node.text.empty()) axes.push_back(node.text);
    return axes;
  }
  if (!node.IsSequence()) return std::nullopt;
  for (const YamlNode& axis : node.items) {
    if (!axis.IsScalar()) return std::nullopt;
    axes.push_back(axis.text);
  }
  return axes;
}

}  // namespace shardc::imports
