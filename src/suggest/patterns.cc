// Makes the patterns of suggested rules. Each parameter group gets a short
// suffix of its name with which no name of another rule ends. The suffixes of
// one rule are joined into patterns, and all patterns are matched with all
// names. If a pattern matches a name of another rule, its suffixes become
// longer, such as mlp.up.weight in place of up.weight. The patterns are then
// made and matched again:
//
//   layers.*.mlp.gate_proj.weight, layers.*.mlp.up_proj.weight
//       ->  gate_proj.weight, up_proj.weight
//       ->  (gate|up)_proj\.weight$
#include "suggest/patterns.h"

#include <algorithm>

#include "suggest/join_patterns.h"
#include "suggest/name_index.h"
#include "suggest/pattern_proof.h"
#include "suggest/suffixes.h"

namespace shardc::suggest {
namespace {

// The largest number of rounds. In each round, the suffixes of patterns that
// match a name of another rule become longer by one part. Most names have fewer
// than 12 parts, so more rounds would rarely help.
constexpr int kMostRounds = 12;

}  // namespace

Patterns PatternsOf(const Tree& tree,
                    const std::vector<std::vector<uint32_t>>& rule_groups) {
  const NameIndex names(tree, rule_groups);
  std::vector<Suffix> suffixes(tree.groups.size());
  for (uint32_t k = 0; k < tree.groups.size(); ++k) {
    suffixes[k] = FirstSuffix(names, k);
  }
  for (const auto& group : rule_groups) AlignSuffixes(names, group, suffixes);
  Patterns out;
  for (int round = 0; round < kMostRounds; ++round) {
    out.rule_groups.clear();
    for (const auto& group : rule_groups) {
      out.rule_groups.push_back(JoinedPatterns(names, group, suffixes));
    }
    const auto wrong = Disprove(tree, out);
    out.proven = wrong.empty();
    if (out.proven) break;
    bool changed = false;
    for (const uint32_t k : wrong) {
      changed = Narrow(names, k, suffixes[k]) || changed;
    }
    if (!changed) break;
  }
  const bool from_start =
      std::any_of(suffixes.begin(), suffixes.end(),
                  [](const Suffix& suffix) { return suffix.at_start; });
  if (out.proven && from_start) FindMissed(tree, out);
  return out;
}

}  // namespace shardc::suggest
