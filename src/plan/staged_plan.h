// Converts the stages of a plan that was read from its file to the form that
// compiled targets have, so that the cost of a pipeline is computed in the same
// way from both.
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
  // Names, types, placements and the specs of train. The names are views into
  // the PlanView.
  Plan plan;
  char separator = '.';  // of names
  PlannedStages stages;
  // Whether the layer of each parameter is known, and not only its stage.
  bool layers_known = true;
};

// Settings that replace or complete the schedule in a plan's file.
struct PlanSchedule {
  std::string file;  // of the plan's schedule, if that is one
  std::optional<int32_t> microbatches = {};
};

// `view` must have stages. Returns nullopt after a finding: usage if the
// schedule's table differs from the plan's, or one of making a schedule.
std::optional<StagedPlan> StagedPlanOf(const PlanView& view,
                                       const PlanSchedule& given,
                                       Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PLAN_STAGED_PLAN_H_
