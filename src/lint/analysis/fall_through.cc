// Adds the bytes of large groups that a catch-all replicates. They are reported
// from a fifth of the model, or from a twentieth if a rule that matches nothing
// was probably intended for one of them:
//
//   6 of 100 GB and a dead rule `moe/experts/up` for mlp/experts/up: reported
//   6 of 100 GB and no such rule: not reported
#include "lint/analysis/fall_through.h"

#include <algorithm>
#include <set>

namespace shardc {
namespace {

FallThrough FallThroughTo(const Facts& facts, size_t rule) {
  FallThrough out;
  out.rule = static_cast<int32_t>(rule);
  for (uint32_t index : facts.rule_facts()[rule].groups) {
    const ParameterGroup& group = facts.groups()[index];
    if (facts.Elements(group) < kLargeElements || !facts.Replicated(group)) {
      continue;
    }
    out.groups.push_back(&group);
    out.bytes += facts.TotalBytes(group);
  }
  std::stable_sort(out.groups.begin(), out.groups.end(),
                   [&](const ParameterGroup* a, const ParameterGroup* b) {
                     return facts.TotalBytes(*a) > facts.TotalBytes(*b);
                   });
  return out;
}

}  // namespace

std::vector<FallThrough> CatchAllFallThroughs(const Facts& facts) {
  const auto rules = facts.rule_facts();
  const bool only_catch_alls =
      std::all_of(rules.begin(), rules.end(),
                  [](const RuleFacts& rule) { return rule.sketch.catch_all; });
  if (only_catch_alls) return {};
  std::vector<FallThrough> out;
  for (size_t r = 0; r < rules.size(); ++r) {
    if (!rules[r].sketch.catch_all || rules[r].groups.empty()) continue;
    FallThrough fall = FallThroughTo(facts, r);
    if (fall.bytes == 0 || fall.bytes < facts.total_bytes() / 20) continue;
    std::set<int32_t> named;
    for (const ParameterGroup* group : fall.groups) {
      const auto intended =
          facts.nearest().Of(group->name, NearestRules::Among::kDead, named);
      if (!intended || !named.insert(intended->rule).second) continue;
      fall.intended.push_back({*intended, group});
    }
    if (fall.intended.empty() && fall.bytes < facts.total_bytes() / 5) {
      continue;
    }
    out.push_back(std::move(fall));
  }
  return out;
}

}  // namespace shardc
