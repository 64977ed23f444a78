// Compares names to find parameter groups that belong together. Siblings are
// the projections of one module, such as q_proj and k_proj. Their paths are
// equal if the part that states the role is replaced by `?`. If two groups
// of a module have the same role, the group with more parameters is used. For
// example:
//
//   layers/*/attn/q_proj/kernel, layers/*/attn/k_proj/kernel  ->  siblings
#include "lint/analysis/groups.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "roles/role.h"
#include "source/list.h"
#include "source/size.h"

namespace shardc {

std::optional<Adapter> AdapterOf(std::string_view name, char separator) {
  Adapter out;
  for (const std::string_view part : RoleParts(name, separator)) {
    const Role role = RoleBelow(part);
    out.down = role == Role::kAdapterDown;
    if (IsAdapter(role)) return out;
    if (!out.base.empty()) out.base += separator;
    out.base += part;
  }
  return std::nullopt;
}

AdapterHalves::AdapterHalves(const Facts& facts) {
  for (const ParameterGroup& group : facts.groups()) {
    if (!IsAdapter(group.role.role)) continue;
    const auto half = AdapterOf(group.name, facts.separator());
    if (!half) continue;
    halves_.try_emplace({half->base, half->down, facts.Rank(group)}, &group);
  }
}

const ParameterGroup* AdapterHalves::OtherOf(
    const Facts& facts, const ParameterGroup& group) const {
  if (!IsAdapter(group.role.role)) return nullptr;
  const auto own = AdapterOf(group.name, facts.separator());
  if (!own) return nullptr;
  const auto at = halves_.find({own->base, !own->down, facts.Rank(group)});
  return at == halves_.end() ? nullptr : at->second;
}

const ParameterGroup* OtherHalf(const Facts& facts,
                                const ParameterGroup& group) {
  return facts.adapter_halves().OtherOf(facts, group);
}

bool IsReplicatedHalf(const Facts& facts, const ParameterGroup& group) {
  if (!facts.Replicated(group)) return false;
  const ParameterGroup* const other = OtherHalf(facts, group);
  return other != nullptr && !facts.Replicated(*other);
}

bool IsWeight(const ParameterGroup& group) { return IsWeight(group.role); }

bool SplitOver(const Facts& facts, const ParameterGroup& group,
               const AxisGroup& axes) {
  for (const AxisGroup& dimension : facts.Train(group).spec) {
    if (std::find_first_of(dimension.begin(), dimension.end(), axes.begin(),
                           axes.end()) != dimension.end()) {
      return true;
    }
  }
  return false;
}

bool IsPlaced(const Facts& facts, const ParameterGroup& group) {
  return facts.plan().params[facts.Members(group).front()].IsPlaced();
}

std::vector<Siblings> SiblingsOf(const Facts& facts) {
  std::unordered_map<std::string_view, size_t> ids;
  std::vector<Siblings> all;
  for (const ParameterGroup& group : facts.groups()) {
    if (!IsWeight(group) || group.role.module_role == Role::kOther ||
        IsAdapter(group.role.role) || !facts.Judged(group)) {
      continue;
    }
    const auto [at, fresh] =
        ids.try_emplace(group.role.sibling_path, all.size());
    if (fresh) all.emplace_back();
    const ParameterGroup*& slot = all[at->second].roles[group.role.module_role];
    if (slot == nullptr || group.count() > slot->count()) slot = &group;
  }
  std::erase_if(all, [](const Siblings& s) { return s.roles.size() < 2; });
  return all;
}

std::vector<int> UnscannedDims(const Facts& facts, const LayerStacks& stacks,
                               const ParameterGroup& group) {
  const auto& shape = facts.TypeOf(group).shape;
  if (!shape) return {};
  return facts::UnscannedDims(
      *shape, stacks, stacks.dims[AsIndex(&group - facts.groups().data())]);
}

std::optional<MatrixDims> MatrixDimsOf(const Facts& facts,
                                       const LayerStacks& stacks,
                                       const ParameterGroup& group) {
  // A parameter with two dimensions is a matrix, even if one of them has the
  // size of the number of layers.
  if (facts.Rank(group) == 2) return MatrixDims{0, 1};
  const std::vector<int> dims = UnscannedDims(facts, stacks, group);
  if (dims.size() != 2) return std::nullopt;
  return MatrixDims{dims[0], dims[1]};
}

std::optional<int> VectorDimOf(const Facts& facts, const LayerStacks& stacks,
                               const ParameterGroup& group) {
  // A parameter with one dimension is a vector, even if the dimension has the
  // size of the number of layers.
  if (facts.Rank(group) == 1) return 0;
  const std::vector<int> dims = UnscannedDims(facts, stacks, group);
  if (dims.size() != 1) return std::nullopt;
  return dims.front();
}

}  // namespace shardc
