// The stages of a plan that was read from its file, in the form in which those
// of a compiled target are: the cost of a pipeline is computed from either.
#ifndef SHARDC_PLAN_STAGED_PLAN_H_
#define SHARDC_PLAN_STAGED_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>

#include "plan/plan.h"
#include "plan/planned_stages.h"
#include "plan/view.h"
#include "source/finding.h"

namespace shardc {

struct StagedPlan {
  // Names, types, placements and the specs of train; the names are views into
  // the PlanView.
  Plan plan;
  char separator = '.';  // of names
  PlannedStages stages;
  // Whether the layer of each parameter is known, not its stage alone.
  bool layers_known = true;
};

// What replaces or completes the schedule of a plan's file.
struct PlanSchedule {
  std::string file;  // of the plan's schedule, if that is one
  std::optional<int32_t> microbatches = {};
};

// `view` has stages. Findings: usage if the schedule's table is not the plan's,
// and those of making a schedule.
std::optional<StagedPlan> StagedPlanOf(const PlanView& view,
                                       const PlanSchedule& given,
                                       Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PLAN_STAGED_PLAN_H_
