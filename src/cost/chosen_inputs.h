// The inputs of the cost model for some of a plan's parameters.
#ifndef SHARDC_COST_CHOSEN_INPUTS_H_
#define SHARDC_COST_CHOSEN_INPUTS_H_

#include <optional>

#include "cost/inputs.h"
#include "plan/plan.h"
#include "plan/representatives.h"

namespace shardc::cost {

// Makes the inputs of the parameters of a plan that `chosen` counts, with the
// axes of tokens and of the hidden state that `whole` has. `separator` is that
// of the parameters' names; `slices` may be null.
CostInputs ChosenInputs(const Plan& plan, char separator,
                        const CostInputs& whole,
                        std::optional<ModelConfig> model,
                        const Representatives& chosen,
                        const StackSlices* slices);

}  // namespace shardc::cost

#endif  // SHARDC_COST_CHOSEN_INPUTS_H_
