// Converts a parameter of a plan with stages to one of a plan without stages.
#ifndef SHARDC_PLAN_WITHOUT_STAGES_H_
#define SHARDC_PLAN_WITHOUT_STAGES_H_

#include <optional>

#include "plan/plan_stages.h"
#include "plan/read.h"

namespace shardc {

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

#endif  // SHARDC_PLAN_WITHOUT_STAGES_H_
