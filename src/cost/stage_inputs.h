// The inputs of the cost model for the program of one stage of a pipeline.
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

// The plan whose parameters stages have.
struct StagedModel {
  const Plan& plan;
  char separator = '.';  // of names
  // Whether the layer of each parameter is known, and not its stage alone, so
  // that another division can be evaluated.
  bool layers_known = true;
};

// The inputs of one stage's program: the parameters of the units from `begin`
// on and before `end`, on the stage's mesh. An embedding that is no head is no
// embedding of these inputs, so that no logits are computed from it. With
// `copies` the last unit has the embedding that it shares with the first one.
CostInputs StageInputs(const StagedModel& model, const CostInputs& all,
                       const PlannedStages& stages, int64_t begin, int64_t end,
                       bool copies = true);

// The inputs of a plan that was read from a file, of all its stages. The plan
// lacks the axes of the hidden state, which a stage sends to the next one: they
// are taken to be those of the query's heads, as without axis rules that state
// one of the two.
CostInputs StagedPlanInputs(const PlanView& plan,
                            std::optional<ModelConfig> model);

// Units with equal parameters have equal numbers, from 0 on.
std::vector<size_t> KindsOfUnits(const Plan& plan, const StageUnits& units);

}  // namespace shardc::cost

#endif  // SHARDC_COST_STAGE_INPUTS_H_
