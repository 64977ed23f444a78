#include "picture/coverage.h"

#include <algorithm>

#include "source/checked.h"
#include "source/index.h"

namespace shardc::picture {

int64_t Coverage::Dead() const {
  return std::count_if(rules.begin(), rules.end(), [](const RuleLine& rule) {
    return rule.won == 0 && rule.found.value_or(0) == 0;
  });
}

int64_t Coverage::Shadowed() const {
  return std::count_if(rules.begin(), rules.end(), [](const RuleLine& rule) {
    return rule.won == 0 && rule.found.value_or(0) > 0;
  });
}

Coverage CoverageOf(const FoldedPlan& plan) {
  const PlanView& view = plan.table().classes;
  Coverage out;
  for (size_t i = 0; i < view.rules.size(); ++i) {
    RuleLine line;
    line.match = view.rules[i];
    line.source = view.rule_sources[i];
    out.rules.push_back(std::move(line));
  }
  const auto add = [](int64_t& sum, int64_t bytes) {
    sum = CheckedAdd(sum, bytes).value_or(INT64_MAX);
  };
  for (const ParamGroup& group : plan.groups()) {
    const int64_t bytes = plan.Total(group).value_or(0);
    const int32_t rule = plan.RuleOf(group);
    add(out.bytes, bytes);
    if (rule < 0) {
      out.no_rule += group.count;
      add(out.no_rule_bytes, bytes);
      continue;
    }
    RuleLine& line = out.rules[AsIndex(rule)];
    line.won += group.count;
    add(line.bytes, bytes);
    out.most = std::max(out.most, line.bytes);
  }
  return out;
}

}  // namespace shardc::picture
