// Applies logical axis rules in the order of the list. The first rule for a
// dimension sets its axes, unless another dimension already uses one of them.
// If the mesh lacks these axes, the dimension stays unsharded, and later rules
// cannot change it. Examples for a parameter with the logical names [embed,
// mlp], on a mesh with the axis tp:
//
//   rules mlp: tp, embed: tp  ->  [null, tp], because mlp's rule is first
//   rules mlp: ep, mlp: tp    ->  [null, null], because the mesh lacks ep
#include "model/logical_axes.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

namespace shardc {

LogicalRules::LogicalRules(std::span<const LogicalRule> rules) : rules_(rules) {
  for (size_t r = 0; r < rules.size(); ++r) {
    by_name_[rules[r].name].push_back(r);
  }
}

Spec LogicalRules::Resolve(std::span<const AxisGroup> names,
                           const Mesh& mesh) const {
  // Maps the index of each rule that names a dimension of the parameter to the
  // first such dimension. The map is ordered, so that rules apply in their
  // order.
  std::map<size_t, size_t> dim_of;
  for (size_t dim = 0; dim < names.size(); ++dim) {
    if (names[dim].size() != 1) continue;
    const auto found = by_name_.find(names[dim][0]);
    if (found == by_name_.end()) continue;
    for (const size_t rule : found->second) dim_of.emplace(rule, dim);
  }
  Spec spec(names.size());
  std::vector<bool> settled(names.size());
  std::set<std::string> used;
  for (const auto& [r, dim] : dim_of) {
    const LogicalRule& rule = rules_[r];
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
