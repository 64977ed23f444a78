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
#include "plan/planned_stages.h"
#include "plan/view.h"
#include "source/finding.h"

namespace shardc {

// A plan with its stages. It cannot be copied, because the names in `plan` are
// a view of `names`.
struct StagedPlan {
  StagedPlan() = default;
  StagedPlan(StagedPlan&&) = default;
  StagedPlan& operator=(StagedPlan&&) = default;

  // The names of the parameters, as views into the PlanView.
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
std::optional<StagedPlan> StagedPlanOf(const PlanView& view,
                                       const PlanSchedule& given,
                                       Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PLAN_STAGED_PLAN_H_
