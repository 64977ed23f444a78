// Parameters of one group that have one layout and one rule are one piece of
// evidence, so that the layers of a model are not counted one by one.
#include "plan/axis_facts.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "facts/parameters.h"
#include "facts/sharded_groups.h"
#include "model/axis_rules.h"
#include "plan/placement.h"
#include "source/list.h"
#include "source/wording.h"

namespace shardc {

std::vector<AxisFacts> AxisFactsOf(const Compiled& compiled,
                                   const TracedParams& traced) {
  const Plan& plan = compiled.plan;
  const facts::ParameterTable& table = compiled.Parameters();
  std::set<std::tuple<uint32_t, uint32_t, int32_t>> seen;
  std::vector<ShardedGroup> groups;
  for (size_t i = 0; i < plan.params.size(); ++i) {
    const PlannedParam& param = plan.params[i];
    const ParamLayout& layout = plan.layouts[param.layout];
    const int32_t rule = compiled.matches.first[i];
    if (!seen.emplace(table.group_of[i], param.layout, rule).second) continue;
    const TensorType& type = plan.types[layout.type];
    if (!type.shape) continue;
    const ModeLayout& train = layout.modes.front();
    facts::WrittenSpec written = {.group = table.group_of[i],
                                  .shape = &*type.shape,
                                  .spec = &train.resolved,
                                  .traces = train.why.traces,
                                  .rule = rule};
    if (param.IsPlaced()) written.placed_along = PlacementAxis(plan, layout);
    if (!traced.params.empty()) {
      written.program = traced.facts;
      written.traced = traced.params[i];
    }
    groups.push_back(facts::ShardedGroupOf(table, written));
  }
  return FindAxisFacts(
      {.mesh = &compiled.mesh,
       .rules = &compiled.rules.axes,
       .stage_axis = compiled.stage_axis,
       .generates_only = !IsAmong(Mode::kTrain, compiled.options.modes),
       .groups = groups});
}

}  // namespace shardc
