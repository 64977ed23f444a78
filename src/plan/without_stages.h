// Converts a parameter of a plan with stages to one of a plan without stages.
#ifndef SHARDC_PLAN_WITHOUT_STAGES_H_
#define SHARDC_PLAN_WITHOUT_STAGES_H_

#include "plan/plan_stages.h"
#include "plan/read.h"

namespace shardc {

// Removes the parameter's stages and keeps it on the same devices by other
// means. A parameter of one rank is placed at that coordinate of the stages'
// axis, and a tensor that holds layers is sharded over the axis. Returns false
// if this is not possible: the parameter is on some ranks but not on one or
// all, it is placed along another axis, or the stages have different numbers of
// layers. The parameter is then on all devices.
bool TakeStagesAway(const PlanStages& stages, ReadParam& param);

}  // namespace shardc

#endif  // SHARDC_PLAN_WITHOUT_STAGES_H_
