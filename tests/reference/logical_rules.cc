// Resolves logical axes in the order of rules, and not of dimensions: an
// earlier rule takes its axes first, whatever the position of its dimension.
//
// Example: the rules mlp -> tp, embed -> tp for [embed, mlp] give (None, "tp").
// The rule for mlp comes first, and tp is then taken.
#include "reference/logical_rules.h"

#include <algorithm>
#include <set>
#include <vector>

namespace shardc::reference {

Spec ResolveLogicalAxes(std::span<const LogicalRule> rules,
                        std::span<const std::optional<std::string>> names,
                        const Mesh& mesh) {
  Spec spec(names.size());
  std::vector<bool> done(names.size());
  std::set<std::string> used;
  for (const LogicalRule& rule : rules) {
    // The first dimension of that name decides; a name is not given twice.
    const auto at = std::find(names.begin(), names.end(), rule.name);
    if (at == names.end()) continue;
    const auto dim = static_cast<size_t>(at - names.begin());
    if (done[dim]) continue;
    const bool taken = std::any_of(
        rule.axes.begin(), rule.axes.end(),
        [&](const std::string& axis) { return used.contains(axis); });
    if (taken) continue;
    for (const std::string& axis : rule.axes) {
      used.insert(axis);
      if (mesh.Find(axis)) spec[dim].push_back(axis);
    }
    done[dim] = true;
  }
  return spec;
}

}  // namespace shardc::reference
