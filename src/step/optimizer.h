// The optimizer's part of a step: clipping by the global norm of the gradients
// and AdamW with decoupled weight decay.
#ifndef SHARDC_STEP_OPTIMIZER_H_
#define SHARDC_STEP_OPTIMIZER_H_

#include "model/step_graph.h"

namespace shardc::step {

// Appends the optimizer to a graph with gradients: moments as inputs,
// `gradient_norm`, `updated` and `updated_moments`, which parameters without a
// gradient lack. Results have the constraint `new:ROLE`. The settings are
// `graph.adam`.
void AppendOptimizer(Graph& graph);

}  // namespace shardc::step

#endif  // SHARDC_STEP_OPTIMIZER_H_
