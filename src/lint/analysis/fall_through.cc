#include "lint/analysis/fall_through.h"

#include <algorithm>
#include <set>

namespace shardc {
namespace {

Fallen FallenTo(const Facts& facts, size_t rule) {
  Fallen out;
  out.rule = static_cast<int32_t>(rule);
  for (uint32_t index : facts.rule_facts()[rule].kinds) {
    const Kind& kind = facts.kinds()[index];
    if (facts.Elements(kind) < kLargeElements || !facts.Replicated(kind)) {
      continue;
    }
    out.kinds.push_back(&kind);
    out.bytes += facts.TotalBytes(kind);
  }
  std::stable_sort(out.kinds.begin(), out.kinds.end(),
                   [&](const Kind* a, const Kind* b) {
                     return facts.TotalBytes(*a) > facts.TotalBytes(*b);
                   });
  return out;
}

}  // namespace

std::vector<Fallen> FallenThrough(const Facts& facts) {
  const auto rules = facts.rule_facts();
  const bool only_catch_alls =
      std::all_of(rules.begin(), rules.end(),
                  [](const RuleFacts& rule) { return rule.sketch.catch_all; });
  if (only_catch_alls || facts.OtherNaming()) return {};
  std::vector<Fallen> out;
  for (size_t r = 0; r < rules.size(); ++r) {
    if (!rules[r].sketch.catch_all || rules[r].kinds.empty()) continue;
    Fallen fallen = FallenTo(facts, r);
    if (fallen.bytes == 0 || fallen.bytes < facts.total_bytes() / 20) continue;
    std::set<int32_t> named;
    for (const Kind* kind : fallen.kinds) {
      const auto meant = MeantFor(facts, *kind, /*dead_only=*/true, named);
      if (!meant || !named.insert(meant->rule).second) continue;
      fallen.meant.push_back({*meant, kind});
    }
    if (fallen.meant.empty() && fallen.bytes < facts.total_bytes() / 5) {
      continue;
    }
    out.push_back(std::move(fallen));
  }
  return out;
}

}  // namespace shardc
