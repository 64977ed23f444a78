// Makes the inputs of the cost model for one stage of a pipeline.
#ifndef SHARDC_COST_STAGE_INPUTS_H_
#define SHARDC_COST_STAGE_INPUTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cost/inputs.h"
#include "plan/plan.h"
#include "plan/planned_stages.h"
#include "plan/view.h"

namespace shardc::cost {

// A plan of a model that is divided into the stages of a pipeline.
struct StagedModel {
  const Plan& plan;
  char separator = '.';  // the separator in parameter names
  // True if the layer of each parameter is known. If only the stage of each
  // parameter is known, other divisions of the layers cannot be evaluated.
  bool layers_known = true;
};

// Returns the inputs of one stage: the parameters of the units from `begin` to
// before `end`, on the stage's mesh. On a stage without the head, the embedding
// gets the role of position embeddings, so that no logits are computed from it.
// With `copies`, the last unit has a copy of an embedding that the head shares
// with the first unit.
CostInputs StageInputs(const StagedModel& model, const CostInputs& all,
                       const PlannedStages& stages, int64_t begin, int64_t end,
                       bool copies = true);

// Returns the inputs of all stages of a plan that was read from a file. The
// plan may lack the axes of the hidden state, which a stage sends to the next
// stage. They are then assumed to be the axes of the query's heads, if these
// divide the hidden size.
CostInputs StagedPlanInputs(const PlanView& plan,
                            std::optional<ModelConfig> model);

// Returns one number for each unit. Layers whose parameters have the same
// layouts have the same number. The numbers begin at 0. The number of the first
// unit and that of the last unit differ from all others.
std::vector<size_t> KindsOfUnits(const Plan& plan, const StageUnits& units);

}  // namespace shardc::cost

#endif  // SHARDC_COST_STAGE_INPUTS_H_
