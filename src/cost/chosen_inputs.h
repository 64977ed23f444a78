// Makes the inputs of the cost model for a chosen part of a plan's parameters,
// such as the parameters of one pipeline stage.
#ifndef SHARDC_COST_CHOSEN_INPUTS_H_
#define SHARDC_COST_CHOSEN_INPUTS_H_

#include <optional>

#include "cost/inputs.h"
#include "plan/plan.h"
#include "plan/representatives.h"

namespace shardc::cost {

// Makes the inputs for some parameters of a plan: those whose entry in
// `chosen.counts` is not 0. The mesh, the axes of tokens and the axes of the
// hidden state are copied from `whole`, the inputs of the complete plan.
// `separator` is the separator in the parameters' names. A tensor may stack
// several layers; `slices` states how many of them are included. If `slices` is
// null, all layers are.
CostInputs ChosenInputs(const Plan& plan, char separator,
                        const CostInputs& whole,
                        std::optional<ModelConfig> model,
                        const Representatives& chosen,
                        const StackSlices* slices);

}  // namespace shardc::cost

#endif  // SHARDC_COST_CHOSEN_INPUTS_H_
