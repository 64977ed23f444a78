// The inputs of the cost model for some of a plan's parameters.
#ifndef SHARDC_COST_CHOSEN_INPUTS_H_
#define SHARDC_COST_CHOSEN_INPUTS_H_

#include <optional>

#include "cost/inputs.h"
#include "plan/plan.h"
#include "plan/representatives.h"

namespace shardc::cost {

// Makes the inputs for the parameters that `chosen` counts. The axes of tokens
// and of the hidden state are copied from `whole`, the inputs of the complete
// plan. `separator` is the one in the parameters' names; `slices` may be null.
CostInputs ChosenInputs(const Plan& plan, char separator,
                        const CostInputs& whole,
                        std::optional<ModelConfig> model,
                        const Representatives& chosen,
                        const StackSlices* slices);

}  // namespace shardc::cost

#endif  // SHARDC_COST_CHOSEN_INPUTS_H_
