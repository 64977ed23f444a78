// Applies logical axis rules in their order. A rule decides its dimension even
// if the mesh has none of the rule's axes: the dimension stays unsharded, and
// later rules cannot change that. An example of the order:
//
//   mlp: tp, embed: tp over [embed, mlp]  ->  [null, tp]: mlp's rule is first
#include "model/logical_axes.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace shardc {

Spec ResolveLogical(std::span<const LogicalRule> rules,
                    std::span<const AxisGroup> names, const Mesh& mesh) {
  Spec spec(names.size());
  std::vector<bool> settled(names.size());
  std::set<std::string> used;
  for (const LogicalRule& rule : rules) {
    const auto at =
        std::find_if(names.begin(), names.end(), [&](const AxisGroup& group) {
          return group.size() == 1 && group[0] == rule.name;
        });
    if (at == names.end()) continue;
    const auto dim = static_cast<size_t>(at - names.begin());
    const bool taken = std::any_of(
        rule.axes.begin(), rule.axes.end(),
        [&](const std::string& axis) { return used.contains(axis); });
    if (settled[dim] || taken) continue;
    settled[dim] = true;
    used.insert(rule.axes.begin(), rule.axes.end());
    std::copy_if(
        rule.axes.begin(), rule.axes.end(), std::back_inserter(spec[dim]),
        [&](const std::string& axis) { return mesh.Find(axis).has_value(); });
  }
  return spec;
}

}  // namespace shardc
