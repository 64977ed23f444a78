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

std::vector<AxisFacts> AxisFactsOf(const ReadPlan& plan) {
  if (plan.axes && !plan.axes->facts.empty()) return plan.axes->facts;
  const AxisRules none;
  std::vector<ShardedGroup> groups;
  for (const ReadParam& param : plan.params) {
    if (param.type.shape) {
      groups.push_back({.spec = &param.spec, .shape = &*param.type.shape});
    }
  }
  return FindAxisFacts({.mesh = &plan.mesh,
                        .rules = plan.axes ? &plan.axes->rules : &none,
                        .stage_axis = plan.stages
                                          ? std::string_view(plan.stages->axis)
                                          : std::string_view(),
                        .groups = groups});
}

namespace {

// Returns whether an axis rule of the target has each axis of the mesh, or the
// target's pipeline has.
bool AreAllNamed(const Compiled& compiled) {
  AxisGroup named = {compiled.stage_axis};
  for (size_t i = 0; i < kAxisRuleCount; ++i) {
    const auto rule = static_cast<AxisRule>(i);
    for (const std::string& axis : compiled.resolver->axes().Value(rule).axes) {
      AddOnce(named, axis);
    }
  }
  return std::ranges::all_of(compiled.mesh.axes, [&](const MeshAxis& axis) {
    return axis.size <= 1 || IsAmong(axis.name, named);
  });
}

}  // namespace

PlanAxes PlanAxesOf(const Compiled& compiled) {
  PlanAxes out{.rules = compiled.rules.axes};
  if (!AreAllNamed(compiled)) out.facts = AxisFactsOf(compiled);
  return out;
}

FigureAxes FigureAxesOf(const PlanAxes& axes, const RuleSet& rules,
                        const Mesh& mesh) {
  FigureAxes out;
  for (const AxisFacts& one : axes.facts) {
    if (one.tokens == AxisTokens::kSame && one.use == AxisUse::kGathered &&
        one.tokens_evidence == AxisEvidence::kStated) {
      out.gathered.push_back(one.axis);
    }
  }
  RuleSet completed = rules;
  completed.axes = CompletedAxes(axes.rules, axes.facts);
  if (completed.axes == axes.rules) return out;
  Findings unreported;  // The rules have been resolved before.
  out.completed = Resolver::Make(completed, mesh, unreported);
  if (out.completed) out.notes = NotesOfCompleted(axes.rules, axes.facts);
  return out;
}

const FigureAxes& TargetAxes::Of(const Compiled& compiled) {
  std::call_once(once_, [&] {
    axes_ = FigureAxesOf(compiled.plan.axes, compiled.rules, compiled.mesh);
  });
  return axes_;
}

const Resolver& FigureResolver(const Compiled& compiled) {
  const FigureAxes& axes = compiled.Axes();
  return axes.completed ? *axes.completed : *compiled.resolver;
}

}  // namespace shardc
