// Groups that belong together are found by a common text: siblings by their
// name with `?` for the role, biases and scales by the module that they and
// their weight are in. Of two groups of one role, the larger stands for it.
//
//   layers/*/attn/q_proj/kernel  ->  siblings of layers/*/attn/?/kernel
//
// A block is the least power of two that makes so many scales:
//
//   576 rows and 5 scales  ->  128, as 576 / 128 rounds up to 5
#include "lint/analysis/groups.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace shardc {

bool IsWeight(const ParameterGroup& group) {
  return group.role.leaf == Leaf::kWeight || group.role.leaf == Leaf::kKernel;
}

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
  return facts.plan()
      .params[facts.Members(group).front()]
      .coordinate.has_value();
}

std::vector<Siblings> SiblingsOf(const Facts& facts) {
  std::unordered_map<std::string_view, size_t> ids;
  std::vector<Siblings> all;
  for (const ParameterGroup& group : facts.groups()) {
    if (!IsWeight(group) || group.role.role == Role::kOther ||
        !facts.Judged(group)) {
      continue;
    }
    const auto [at, fresh] = ids.try_emplace(group.role.siblings, all.size());
    if (fresh) all.emplace_back();
    const ParameterGroup*& slot = all[at->second].roles[group.role.role];
    if (slot == nullptr || group.count() > slot->count()) slot = &group;
  }
  std::erase_if(all, [](const Siblings& s) { return s.roles.size() < 2; });
  return all;
}

std::vector<Companion> CompanionsOf(const Facts& facts) {
  std::unordered_map<std::string_view, const ParameterGroup*> weights;
  for (const ParameterGroup& group : facts.groups()) {
    if (!IsWeight(group) || facts.Rank(group) < 2) continue;
    const ParameterGroup*& slot = weights[group.role.module];
    if (slot == nullptr || group.count() > slot->count()) slot = &group;
  }
  std::vector<Companion> out;
  for (const ParameterGroup& group : facts.groups()) {
    const Leaf leaf = group.role.leaf;
    if (leaf != Leaf::kBias && leaf != Leaf::kScale &&
        leaf != Leaf::kZeroPoint) {
      continue;
    }
    const auto weight = weights.find(group.role.module);
    if (weight == weights.end()) continue;
    if (!facts.Judged(group) || !facts.Judged(*weight->second)) {
      continue;
    }
    out.push_back({weight->second, &group});
  }
  return out;
}

int64_t BlockOf(int64_t size, int64_t scales) {
  if (scales <= 0 || scales >= size) return 1;
  for (int64_t block = 2; block <= size; block *= 2) {
    if ((size + block - 1) / block == scales) return block;
    if (block > size / 2) break;
  }
  // Not a power of two: a group size such as 100, or one scale for all.
  return size % scales == 0 ? size / scales : 1;
}

}  // namespace shardc
