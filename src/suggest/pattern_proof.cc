// Checks that exactly one pattern matches each parameter name. Then the order
// of the suggested rules does not matter, and every rule is used. Disprove()
// returns the parameter groups whose patterns violate this. If a pattern
// matches a name of another rule, the groups of this pattern are returned, so
// that it becomes narrower. If no pattern matches a name, the group of this
// name is returned. For example:
//
//   `norm\.weight$` also matches layers.0.q_norm.weight of another rule
//       ->  Disprove() returns the groups of `norm\.weight$`
#include "suggest/pattern_proof.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "match/match.h"
#include "match/state_names.h"
#include "source/wording.h"

namespace shardc::suggest {
namespace {

// The patterns of all rules, the names of all tensors, and which pattern
// matches which name.
struct AllMatches {
  std::vector<PatternOf*> patterns;
  std::vector<std::string_view> names;
  // nullopt if the patterns are too many to compile.
  std::optional<Matches> matches;
};

AllMatches MatchAll(const Tree& tree, Patterns& made) {
  AllMatches out;
  std::vector<Pattern> patterns;
  for (auto& group : made.rule_groups) {
    for (PatternOf& one : group) {
      patterns.push_back(
          {one.text, {}, tree.separator == 0 ? '/' : tree.separator});
      out.patterns.push_back(&one);
    }
  }
  for (const Tensor& tensor : tree.manifest->tensors) {
    out.names.push_back(tensor.name);
  }
  Findings ignored;
  const auto matcher = Matcher::Compile(patterns, ignored);
  if (matcher) out.matches = matcher->Match(out.names, tree.separator);
  return out;
}

}  // namespace

std::string MatchFault(std::string_view name, size_t matches) {
  const std::string by =
      matches == 0   ? "no pattern"
      : matches == 1 ? "a pattern of another rule only"
                     : CountText(static_cast<int64_t>(matches)) + " patterns";
  return ShortQuote(name) + " is matched by " + by +
         "; it must be matched by one, of its own rule";
}

std::set<uint32_t> Disprove(const Tree& tree, Patterns& patterns) {
  const AllMatches all = MatchAll(tree, patterns);
  if (!all.matches) {
    patterns.unproven = "the patterns are more than can be compiled";
    return {0};
  }
  // Each parameter group has one pattern. The index of its pattern is stored
  // here.
  std::vector<size_t> pattern_of(tree.groups.size(), all.patterns.size());
  for (size_t p = 0; p < all.patterns.size(); ++p) {
    for (const uint32_t k : all.patterns[p]->groups) pattern_of[k] = p;
  }
  std::set<uint32_t> wrong;
  std::set<size_t> wrong_patterns;
  for (uint32_t k = 0; k < tree.groups.size(); ++k) {
    for (const uint32_t member : tree.Members(tree.groups[k])) {
      const auto found = all.matches->Of(member);
      if (found.size() == 1 && pattern_of[k] == found[0]) continue;
      patterns.unproven = MatchFault(all.names[member], found.size());
      bool others = false;
      for (const uint32_t index : found) {
        if (pattern_of[k] == index) continue;
        wrong_patterns.insert(index);
        others = others || !all.patterns[index]->groups.empty();
      }
      if (!others) wrong.insert(k);
      break;
    }
  }
  for (const size_t index : wrong_patterns) {
    const auto& groups = all.patterns[index]->groups;
    wrong.insert(groups.begin(), groups.end());
  }
  return wrong;
}

void FindMissed(const Tree& tree, Patterns& patterns) {
  if (tree.separator == 0) return;
  const AllMatches all = MatchAll(tree, patterns);
  if (!all.matches) return;
  std::vector<uint32_t> group_of(tree.manifest->tensors.size(), 0);
  for (uint32_t k = 0; k < tree.groups.size(); ++k) {
    for (const uint32_t member : tree.Members(tree.groups[k])) {
      group_of[member] = k;
    }
  }
  std::vector<std::string_view> texts;
  for (const PatternOf* one : all.patterns) texts.push_back(one->text);
  std::set<std::pair<size_t, uint32_t>> listed;
  for (const MissedState& one :
       FindMissedStates(texts, *all.matches, all.names, tree.separator)) {
    const uint32_t group = group_of[one.state];
    if (!listed.emplace(one.pattern, group).second) continue;
    all.patterns[one.pattern]->missed.push_back(group);
  }
}

}  // namespace shardc::suggest
