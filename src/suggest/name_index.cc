// Finds names by their ending. Reversed names that begin with the same text are
// neighbours in a sorted list, so the list has the reversed names:
//
//   "proj.weight"  ->  all entries from "thgiew.jorp" on that begin with it
#include "suggest/name_index.h"

#include <algorithm>

namespace shardc::suggest {

NameIndex::NameIndex(const Tree& tree,
                     const std::vector<std::vector<uint32_t>>& rule_groups)
    : tree_(tree), rule_group_of_(tree.groups.size(), 0) {
  for (size_t g = 0; g < rule_groups.size(); ++g) {
    for (const uint32_t k : rule_groups[g]) rule_group_of_[k] = g;
  }
  for (uint32_t k = 0; k < tree.groups.size(); ++k) {
    by_name_[GroupAt(k).name].push_back(k);
  }
  for (const auto& [name, groups] : by_name_) {
    reversed_.emplace_back(std::string(name.rbegin(), name.rend()), &groups);
  }
  std::sort(reversed_.begin(), reversed_.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
}

std::string NameIndex::Suffix(uint32_t k, size_t parts) const {
  const auto& all = GroupAt(k).parts;
  std::string out;
  for (size_t i = all.size() - parts; i < all.size(); ++i) {
    if (!out.empty()) out += tree_.separator;
    out += all[i];
  }
  return out;
}

bool NameIndex::OthersEndWith(std::string_view text, uint32_t k) const {
  const std::string key(text.rbegin(), text.rend());
  auto at = std::lower_bound(reversed_.begin(), reversed_.end(), key,
                             [](const auto& entry, const std::string& one) {
                               return entry.first < one;
                             });
  for (; at != reversed_.end() && at->first.starts_with(key); ++at) {
    for (const uint32_t other : *at->second) {
      if (rule_group_of_[other] == rule_group_of_[k]) continue;
      if (GroupAt(other).name != GroupAt(k).name) return true;
    }
  }
  return false;
}

std::vector<uint32_t> NameIndex::SameNameElsewhere(uint32_t k) const {
  std::vector<uint32_t> out;
  for (const uint32_t other : by_name_.at(GroupAt(k).name)) {
    if (rule_group_of_[other] != rule_group_of_[k]) out.push_back(other);
  }
  return out;
}

std::vector<uint32_t> NameIndex::SameNameHere(uint32_t k) const {
  std::vector<uint32_t> out;
  for (const uint32_t other : by_name_.at(GroupAt(k).name)) {
    if (rule_group_of_[other] == rule_group_of_[k]) out.push_back(other);
  }
  return out;
}

std::set<std::string_view> NameIndex::Numbers(uint32_t k,
                                              size_t counter) const {
  std::set<std::string_view> out;
  for (const uint32_t member : tree_.Members(GroupAt(k))) {
    const auto all = CountersOf(tree_.NameOf(member), GroupAt(k).name);
    if (counter < all.size()) out.insert(all[counter]);
  }
  return out;
}

}  // namespace shardc::suggest
