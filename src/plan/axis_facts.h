// Finds what each axis of the mesh is for, from a compiled target.
#ifndef SHARDC_PLAN_AXIS_FACTS_H_
#define SHARDC_PLAN_AXIS_FACTS_H_

#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "facts/axes.h"
#include "model/mesh.h"
#include "model/rules.h"
#include "plan/compile.h"
#include "plan/plan_axes.h"
#include "plan/read.h"
#include "program/facts.h"
#include "resolve/resolve.h"

namespace shardc {

// A traced program of the model, and what it shows about each parameter of the
// plan: null for a parameter of which it shows nothing.
struct TracedParams {
  const program::Facts* facts = nullptr;
  std::span<const program::ParamFacts* const> params = {};
};

// Returns the facts of each axis of the mesh, in its order. They follow from
// the statements of the rules, the specs that the rules write for projections
// in train, and the names of the axes.
std::vector<AxisFacts> AxisFactsOf(const Compiled& compiled,
                                   const TracedParams& traced = {});

// Those of a plan that was read from a file: what it states or, if its axis
// rules name all axes, what these and the names of the axes show.
std::vector<AxisFacts> AxisFactsOf(const ReadPlan& plan);

// Returns what the plan states about the axes of its mesh.
PlanAxes PlanAxesOf(const Compiled& compiled);

// The axes as figures take them. If the rules do not say what all axes are for,
// their axis rules are completed (CompletedAxes() in facts/axes.h).
struct FigureAxes {
  // nullopt if the resolver of the target is that of figures as well.
  std::optional<Resolver> completed;
  std::vector<std::string> notes;  // what was completed, for people
  // Axes over which tokens are known to be the same, and weights to be
  // gathered. No axis rule has them.
  AxisGroup gathered;
};

// Returns the axes of a plan as figures take them. `rules` has the axis rules
// of `axes`, and may have other members that a resolver reads.
FigureAxes FigureAxesOf(const PlanAxes& axes, const RuleSet& rules,
                        const Mesh& mesh);

// Those of one compiled target. They are found at the first call, and several
// threads may call Of() at the same time. All calls must have the same target.
class TargetAxes {
 public:
  const FigureAxes& Of(const Compiled& compiled);

 private:
  std::once_flag once_;
  FigureAxes axes_;
};

// Returns the resolver by which figures are computed. The target must outlive
// the result.
const Resolver& FigureResolver(const Compiled& compiled);

}  // namespace shardc

#endif  // SHARDC_PLAN_AXIS_FACTS_H_
