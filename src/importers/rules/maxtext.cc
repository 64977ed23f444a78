// Imports MaxText's `logical_axis_rules` in YAML, which is a list of pairs. The
// first element of a pair is a logical axis. The second element is a mesh axis,
// a list of mesh axes, or null.
//
//   logical_axis_rules: [['mlp', ['fsdp', 'tensor']], ['norm', 'tensor']]
#include <utility>

#include "importers/rules/importer.h"
#include "importers/rules/logical.h"
#include "importers/rules/yaml_axes.h"
#include "yaml/yaml.h"

namespace shardc::imports {
namespace {

bool ReadRule(const YamlNode& node, LogicalRule& rule) {
  if (!node.IsSequence() || node.items.size() != 2 ||
      !node.items[0].IsScalar()) {
    return false;
  }
  auto axes = ReadAxes(node.items[1]);
  if (!axes) return false;
  rule = {node.items[0].text, std::move(*axes)};
  return true;
}

std::optional<Imported> ReadMaxtext(const Request& request,
                                    Findings& findings) {
  const auto document = YamlDocument::Parse(request.source, findings);
  if (!document || findings.HasErrors()) return std::nullopt;
  const YamlNode* rules =
      document->root().IsSequence()
          ? &document->root()
          : FindMember(document->root(), "logical_axis_rules");
  if (rules == nullptr || !rules->IsSequence()) {
    findings.Add(code::kSchema, document->PlaceOf(document->root()),
                 "this holds no list `logical_axis_rules`");
    return std::nullopt;
  }
  std::vector<LogicalRule> read;
  for (const YamlNode& node : rules->items) {
    if (ReadRule(node, read.emplace_back())) continue;
    findings.Add(code::kSchema, document->PlaceOf(node),
                 "this is no pair of a logical name and mesh axes");
    return std::nullopt;
  }
  return ImportLogical(read, request, findings);
}

}  // namespace

constexpr Importer kMaxtext{
    "maxtext", "MaxText's logical_axis_rules over the names of `--names`",
    "--names --mesh", ReadMaxtext};

}  // namespace shardc::imports
