// Groups tensors whose names differ only in counters, such as layer numbers. A
// number that the template of a name replaces (model/name.h) is a counter.
// Other digits at the end of a part are a counter if at least four different
// numbers follow the same stem (the text before the digits) in the model:
//
//   layers.0.fc1.w .. layers.31.fc1.w  ->  layers.*.fc1.w, 32 tensors
//   verse0.w .. verse11.w              ->  verse*.w: 12 numbers after `verse`
//
// `fc1` and `fc2` stay different names, because only two numbers follow `fc`.
// Tensors with one name but two shapes or data types are two groups.
#include "suggest/parameter_groups.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <unordered_map>

#include "model/name.h"
#include "source/list.h"
#include "source/size.h"
#include "source/utf8.h"

namespace shardc::suggest {
namespace {

// If fewer than this many different numbers follow a stem, they name the parts
// of one layer, such as fc1 and fc2.
constexpr size_t kFewestCounted = 4;

// Returns the index at which the digits at the end of a part begin. If the part
// does not end with a digit, returns its size.
size_t StemEnd(std::string_view part) {
  size_t end = part.size();
  while (end > 0 && IsDigit(part[end - 1])) --end;
  return end;
}

// Maps each stem to the different numbers that follow it. At most
// kFewestCounted numbers are stored.
using Stems =
    std::unordered_map<std::string_view, std::vector<std::string_view>>;

template <class Take>
void ForParts(std::string_view name, char separator, const Take& take) {
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = PartEnd(name, begin, separator);
    take(name.substr(begin, end - begin));
    begin = end + 1;
  }
}

Stems StemsOf(const Manifest& manifest) {
  Stems out;
  for (const Tensor& tensor : manifest.tensors) {
    ForParts(tensor.name, manifest.separator, [&](std::string_view part) {
      const size_t at = StemEnd(part);
      if (at == 0 || at == part.size()) return;
      auto& numbers = out[part.substr(0, at)];
      if (numbers.size() >= kFewestCounted) return;
      const auto number = part.substr(at);
      AddOnce(numbers, number);
    });
  }
  return out;
}

void Fold(std::string_view name, char separator, const Stems& stems,
          std::string& out) {
  out.clear();
  size_t done = 0;
  ForParts(name, separator, [&](std::string_view part) {
    size_t at = StemLength(part);
    if (at == part.size()) {
      const auto stem = stems.find(part.substr(0, StemEnd(part)));
      if (stem == stems.end() || stem->second.size() < kFewestCounted) return;
      at = StemEnd(part);
    }
    const auto begin = static_cast<size_t>(part.data() - name.data());
    out += name.substr(done, begin + at - done);
    out += '*';
    done = begin + part.size();
  });
  out += name.substr(done);
}

struct KeyHash {
  size_t operator()(const std::pair<std::string, uint32_t>& key) const {
    return std::hash<std::string>()(key.first) * 31 + key.second;
  }
};

}  // namespace

std::string_view ParameterGroup::stack() const {
  if (stack_size) return std::string_view(name).substr(0, *stack_size);
  const size_t at = name.find('*');
  return at == std::string::npos ? std::string_view()
                                 : std::string_view(name).substr(0, at);
}

bool ParameterGroup::Has(std::string_view part) const {
  return IsAmong(part, parts);
}

Tree ParameterGroupsOf(const Manifest& manifest) {
  Tree tree;
  tree.manifest = &manifest;
  tree.separator = manifest.separator;
  const Stems stems = StemsOf(manifest);
  std::unordered_map<std::pair<std::string, uint32_t>, uint32_t, KeyHash> ids;
  constexpr uint32_t kNone = UINT32_MAX;
  std::vector<uint32_t> group_of(manifest.tensors.size(), kNone);
  std::pair<std::string, uint32_t> key;
  for (size_t i = 0; i < manifest.tensors.size(); ++i) {
    const Tensor& tensor = manifest.tensors[i];
    const TensorType& type = manifest.TypeOf(tensor);
    if (!type.shape) {
      ++tree.shapeless;
      continue;
    }
    Fold(tensor.name, manifest.separator, stems, key.first);
    key.second = tensor.type;
    const auto [at, fresh] =
        ids.try_emplace(key, static_cast<uint32_t>(tree.groups.size()));
    if (fresh) {
      ParameterGroup group;
      group.name = key.first;
      group.shape = *type.shape;
      group.dtype = type.dtype;
      group.elements = type.Elements().value_or(0);
      group.bytes = type.Bytes().value_or(group.elements);
      tree.groups.push_back(std::move(group));
    }
    group_of[i] = at->second;
    ++tree.groups[at->second].end;
  }
  uint32_t begin = 0;
  for (ParameterGroup& group : tree.groups) {
    const uint32_t count = group.end;
    group.begin = group.end = begin;
    begin += count;
    group.parts = SplitName(group.name, manifest.separator);
    const auto all = CheckedMul(group.bytes, int64_t{count});
    tree.bytes =
        CheckedAdd(tree.bytes, all.value_or(INT64_MAX)).value_or(INT64_MAX);
  }
  tree.members.resize(begin);
  for (size_t i = 0; i < group_of.size(); ++i) {
    if (group_of[i] == kNone) continue;
    tree.members[tree.groups[group_of[i]].end++] = static_cast<uint32_t>(i);
  }
  return tree;
}

std::vector<std::string_view> CountersOf(std::string_view name,
                                         std::string_view folded) {
  std::vector<std::string_view> out;
  size_t at = 0;
  for (const char c : folded) {
    if (c != '*') {
      ++at;
      continue;
    }
    size_t end = at;
    while (end < name.size() && IsDigit(name[end])) ++end;
    out.push_back(name.substr(at, end - at));
    at = end;
  }
  return out;
}

// Finds the parameter names that end with a text. The index is a sorted list of
// the reversed names, in which names with the same ending are neighbours. Here
// a search for an ending becomes a search for a beginning:
//
//   "proj.weight"  ->  all entries from "thgiew.jorp" on that begin with it

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

// Chooses the suffix of a parameter group's name that the group's pattern
// matches. A suffix starts with the last two parts of the name. Parts are added
// until no name of another rule ends with the suffix, or until it is the
// complete name. Parts are also added while the suffix begins with a number or
// with a word of one or two letters, because it would be hard to read. For
// example:
//
//   layers.*.mlp.gate_proj.weight           ->  gate_proj.weight
//   block.*.layer.0.SelfAttention.q.weight  ->  SelfAttention.q.weight
//
// Two groups may have the same name and differ in shape or dtype. A counter is
// a `*` in the name, such as the layer number. If the groups have different
// numbers at some counter, each pattern lists the numbers of its own group
// there. Otherwise the patterns list complete names.

namespace {

// The largest number of parameter groups of one rule for which AlignSuffixes()
// compares all pairs. If a rule has more, their suffixes are not changed.
constexpr size_t kMostAligned = 512;

// Returns whether a suffix begins with a number or with a word of one or two
// letters.
bool StartsBadly(const ParameterGroup& group, size_t parts) {
  if (parts >= group.parts.size()) return false;
  const std::string_view word = group.parts[group.parts.size() - parts];
  return word == "*" || word.size() <= 2;
}

size_t CountersIn(std::string_view text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '*'));
}

// Returns the number of parts from the counter (`*`) with this index to the end
// of the name. If the counter is a complete part, the part before it is
// included. Returns 0 if the name has no counter with this index.
size_t PartsWithCounter(const ParameterGroup& group, size_t counter) {
  size_t met = 0;
  for (size_t i = 0; i < group.parts.size(); ++i) {
    met += CountersIn(group.parts[i]);
    if (met <= counter) continue;
    const size_t from = group.parts[i] == "*" && i > 0 ? i - 1 : i;
    return group.parts.size() - from;
  }
  return 0;
}

// Decides how the pattern of group k excludes groups of the same name in other
// rules. It lists the numbers of k in place of one counter (`*`): the first for
// which all numbers of k differ from the numbers of those groups. If there is
// no such counter, the pattern lists complete names.
void SeparateByNumbers(const NameIndex& names, uint32_t k, Suffix& out) {
  const size_t counters = CountersIn(names.GroupAt(k).name);
  for (size_t c = 0; c < counters; ++c) {
    if (!names.HasOwnNumbers(k, c)) continue;
    out.counter = static_cast<int>(c);
    out.parts = std::max(out.parts, PartsWithCounter(names.GroupAt(k), c));
    return;
  }
  out.by_names = true;
}

// Returns the number of positions, among the last `parts` parts, at which two
// names differ.
size_t Differences(const ParameterGroup& a, const ParameterGroup& b,
                   size_t parts) {
  size_t out = 0;
  for (size_t i = 1; i <= parts; ++i) {
    if (a.parts[a.parts.size() - i] != b.parts[b.parts.size() - i]) ++out;
  }
  return out;
}

}  // namespace

Suffix FirstSuffix(const NameIndex& names, uint32_t k) {
  const ParameterGroup& group = names.GroupAt(k);
  const size_t all = group.parts.size();
  Suffix out;
  out.parts = std::min<size_t>(2, all);
  while (out.parts < all &&
         (StartsBadly(group, out.parts) ||
          names.OthersEndWith(names.Suffix(k, out.parts), k))) {
    ++out.parts;
  }
  while (out.parts > 2 && out.parts < all &&
         group.parts[all - out.parts] == "*") {
    ++out.parts;
  }
  out.at_boundary = out.parts == all && names.OthersEndWith(group.name, k);
  if (names.IsNameElsewhere(k)) SeparateByNumbers(names, k, out);
  return out;
}

void AlignSuffixes(const NameIndex& names, const std::vector<uint32_t>& group,
                   std::vector<Suffix>& suffixes) {
  if (group.size() > kMostAligned) return;
  for (const uint32_t a : group) {
    for (const uint32_t b : group) {
      const size_t parts = suffixes[b].parts;
      if (suffixes[a].parts >= parts || suffixes[a].counter >= 0 ||
          suffixes[b].counter >= 0 || names.GroupAt(a).parts.size() < parts) {
        continue;
      }
      if (Differences(names.GroupAt(a), names.GroupAt(b), parts) == 1) {
        suffixes[a].parts = parts;
      }
    }
  }
}

bool Narrow(const NameIndex& names, uint32_t k, Suffix& suffix) {
  const auto& parts = names.GroupAt(k).parts;
  if (suffix.by_names) return false;
  if (suffix.parts < parts.size()) {
    ++suffix.parts;
    while (suffix.parts < parts.size() &&
           parts[parts.size() - suffix.parts] == "*") {
      ++suffix.parts;
    }
  } else if (!suffix.at_boundary) {
    suffix.at_boundary = true;
  } else if (!suffix.at_start) {
    suffix.at_start = true;
  } else {
    suffix.by_names = true;
  }
  return true;
}

}  // namespace shardc::suggest
