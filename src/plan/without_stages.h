// Converts a parameter of a plan with stages to one of a plan without stages.
#ifndef SHARDC_PLAN_WITHOUT_STAGES_H_
#define SHARDC_PLAN_WITHOUT_STAGES_H_

#include <optional>

#include "plan/plan_stages.h"
#include "plan/read.h"

namespace shardc {

// Removes the parameter's stages and keeps it on the same devices by other
// means. A parameter of one rank is placed at that coordinate of the stages'
// axis, and a tensor that holds layers is sharded over the axis. A parameter of
// all ranks stays as it is. Returns false if this is not possible: the
// parameter is on several ranks but not on all, it is on one rank and is placed
// along another axis, or its layers are not divided evenly over the ranks in
// their order. After false the parameter is on all devices.
bool TakeStagesAway(const PlanStages& stages, ReadParam& param);

// A parameter of a plan with stages, as a drawing has it.
struct DrawnParam {
  ReadParam param;  // without stages
  // The rank of the pipeline that `param` is drawn for, as a coordinate of the
  // stages' axis; nullopt if `param` has the devices of all ranks.
  std::optional<ReadPlacement> rank;
};

// Returns the parameter as TakeStagesAway converts it. If this is not possible,
// returns what the first rank that holds the parameter has of it; the shape of
// a tensor that holds layers is then that of the rank's layers.
DrawnParam DrawnWithoutStages(const PlanStages& stages, const ReadParam& param);

}  // namespace shardc

#endif  // SHARDC_PLAN_WITHOUT_STAGES_H_
