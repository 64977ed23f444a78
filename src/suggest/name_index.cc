// Finds the parameter names that end with a text. The index is a sorted list of
// the reversed names, in which names with the same ending are neighbours. Here
// a search for an ending becomes a search for a beginning:
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
    Name& name = by_name_[GroupAt(k).name];
    const size_t rule_group = rule_group_of_[k];
    const bool same = name.groups.empty() || name.rule_group == rule_group;
    name.rule_group = same ? rule_group : kSeveral;
    name.groups.push_back(k);
    name_of_.push_back(&name);
  }
  for (const auto& [text, name] : by_name_) {
    reversed_.emplace_back(std::string(text.rbegin(), text.rend()), &name);
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
    if (at->second == name_of_[k]) continue;
    if (at->second->rule_group != rule_group_of_[k]) return true;
  }
  return false;
}

bool NameIndex::IsNameElsewhere(uint32_t k) const {
  return name_of_[k]->rule_group == kSeveral;
}

std::vector<std::string> NameIndex::NumbersHere(uint32_t k,
                                                size_t counter) const {
  std::vector<std::string> out;
  for (const uint32_t same : name_of_[k]->groups) {
    if (rule_group_of_[same] != rule_group_of_[k]) continue;
    for (const auto number : Numbers(same, counter)) out.emplace_back(number);
  }
  return out;
}

const NameIndex::Owners& NameIndex::OwnersOf(const Name& name,
                                             size_t counter) const {
  const auto [at, fresh] = owners_.try_emplace({&name, counter});
  Owners& out = at->second;
  if (!fresh) return out;
  for (const uint32_t k : name.groups) {
    const size_t rule_group = rule_group_of_[k];
    for (const auto number : Numbers(k, counter)) {
      const auto [owner, first] = out.try_emplace(number, rule_group);
      if (!first && owner->second != rule_group) owner->second = kSeveral;
    }
  }
  return out;
}

bool NameIndex::HasOwnNumbers(uint32_t k, size_t counter) const {
  const Owners& owners = OwnersOf(*name_of_[k], counter);
  const auto own = Numbers(k, counter);
  return std::all_of(own.begin(), own.end(), [&](std::string_view number) {
    return owners.at(number) == rule_group_of_[k];
  });
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
