// Converts the stages of a plan that was read from its file to the form of a
// compiled target. The cost of a pipeline is then computed in the same way for
// plans and for compiled targets.
#ifndef SHARDC_PLAN_STAGED_PLAN_H_
#define SHARDC_PLAN_STAGED_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.h"
#include "plan/plan_stages.h"
#include "plan/plan_table.h"
#include "plan/planned_stages.h"
#include "plan/read.h"
#include "source/finding.h"

namespace shardc {

// A plan with its stages. It cannot be copied, because the names in `plan` are
// a view of `names`.
struct StagedPlan {
  StagedPlan() = default;
  StagedPlan(StagedPlan&&) = default;
  StagedPlan& operator=(StagedPlan&&) = default;

  // The names of the parameters, as views into the ReadPlan.
  std::vector<std::string_view> names;
  Plan plan;             // Has names, types, placements and the specs of train.
  char separator = '.';  // The separator of the parts of names.
  PlannedStages stages;
  // True if the layer of each parameter is known; false if, for some
  // parameters, only the stage is known.
  bool layers_known = true;
};

// Settings that replace or complete the schedule in a plan's file.
struct PlanSchedule {
  std::string file;  // The file of the schedule's table; empty if not given.
  std::optional<int32_t> microbatches = {};
};

// Converts a plan, which must have stages. On failure, returns nullopt and adds
// a finding. Its code is usage if the schedule's table differs from the plan's,
// or if the plan's schedule is a file and no file is given. Otherwise it is a
// code of MakeScheduleTable.
std::optional<StagedPlan> StagedPlanOf(const ReadPlan& view,
                                       const PlanSchedule& given,
                                       Findings& findings);

// Removes the parameter's stages, and keeps the parameter on the same devices
// by a placement or a spec. If one rank of the pipeline holds the parameter, it
// is placed at the rank's coordinate on the stages' axis. A tensor that holds a
// layer stack is sharded over this axis. If all ranks hold the parameter,
// nothing else is changed.
//
// Returns false if this is not possible: the parameter is on several ranks but
// not on all, it is on one rank and is placed along another axis, or its layers
// are not divided evenly over the ranks in their order. The parameter then has
// neither stages nor a new placement or spec.
bool TakeStagesAway(const PlanStages& stages, ReadParam& param);

// How a parameter of a plan with stages is drawn in a picture.
struct DrawnParam {
  ReadParam param;  // The parameter, converted to one without stages.
  // The coordinate, on the stages' axis, of the rank for which `param` is
  // drawn. nullopt if `param` is drawn for all ranks.
  std::optional<ReadPlacement> rank;
};

// Returns the parameter as TakeStagesAway converts it. If that is not possible,
// returns the part of the parameter that the first rank with the parameter
// holds. If the tensor holds layers, its shape then has only the rank's layers.
DrawnParam DrawnWithoutStages(const PlanStages& stages, const ReadParam& param);

}  // namespace shardc

#endif  // SHARDC_PLAN_STAGED_PLAN_H_
