// A parameter of a plan with stages as one of a plan without.
#ifndef SHARDC_PLAN_WITHOUT_STAGES_H_
#define SHARDC_PLAN_WITHOUT_STAGES_H_

#include "plan/plan_stages.h"
#include "plan/read.h"

namespace shardc {

// Takes the parameter's stages away and puts it on the same devices by other
// means: a parameter of one rank is placed at that coordinate of the stages'
// axis, and a tensor that holds layers is sharded over it. Returns false if
// these do not say it: the parameter is on some ranks and not on one or all, it
// is placed along another axis, or stages have different numbers of layers. It
// is then left on all devices.
bool TakeStagesAway(const PlanStages& stages, ReadParam& param);

}  // namespace shardc

#endif  // SHARDC_PLAN_WITHOUT_STAGES_H_
