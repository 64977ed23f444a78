// The inputs of the cost model for the program of one stage of a pipeline.
#ifndef SHARDC_COST_STAGE_INPUTS_H_
#define SHARDC_COST_STAGE_INPUTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cost/inputs.h"
#include "plan/compile.h"
#include "plan/planned_stages.h"

namespace shardc::cost {

// The inputs of one stage's program: the parameters of the units from `begin`
// on and before `end`, on the stage's mesh. An embedding that is no head is no
// embedding of these inputs, so that no logits are computed from it. With
// `copies` the last unit has the embedding that it shares with the first one.
CostInputs StageInputs(const Compiled& compiled, const CostInputs& all,
                       const PlannedStages& stages, int64_t begin, int64_t end,
                       bool copies = true);

// Units with equal parameters have equal numbers, from 0 on.
std::vector<size_t> KindsOfUnits(const Compiled& compiled,
                                 const StageUnits& units);

}  // namespace shardc::cost

#endif  // SHARDC_COST_STAGE_INPUTS_H_
