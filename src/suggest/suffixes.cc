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
#include "suggest/suffixes.h"

#include <algorithm>
#include <string_view>

namespace shardc::suggest {
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
