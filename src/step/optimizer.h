// The optimizer's part of a step: clipping by the global norm of the gradients
// and AdamW with decoupled weight decay.
#ifndef SHARDC_STEP_OPTIMIZER_H_
#define SHARDC_STEP_OPTIMIZER_H_

#include "model/step_graph.h"

namespace shardc::step {

// Behind Differentiate: moments as inputs, `gradient_norm`, `updated` and
// `updated_moments`, absent for parameters without a gradient. Results have the
// anchor `new:ROLE`. Settings are those of `graph.adam` by then.
void AppendOptimizer(Graph& graph);

}  // namespace shardc::step

#endif  // SHARDC_STEP_OPTIMIZER_H_
