// The optimizer's part of a step: clipping by the global norm of the gradients
// and AdamW with decoupled weight decay.
#ifndef SHARDC_STEP_OPTIMIZER_H_
#define SHARDC_STEP_OPTIMIZER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/step_graph.h"

namespace shardc::step {

// Appends the optimizer to a graph with gradients: the moments as inputs,
// `gradient_norm`, `updated` and `updated_moments`. Parameters without a
// gradient have no moments and no updates; if there are no gradients, nothing
// is appended. The sharding constraint of new parameters and moments is
// `new:ROLE`. The settings are `graph.adam`.
void AppendOptimizer(Graph& graph);

// The parameters whose squared gradients one rank of a pipeline adds.
struct NormPart {
  std::vector<size_t> parameters = {};
  int32_t rank = 0;
  ValueId sum = kNoValue;  // set by AppendOptimizer
};
// Appends the optimizer for a pipeline. Each rank adds the squares of the
// gradients in its parts, and then the sums of all ranks are added. A parameter
// that is in no part is left out of the norm.
void AppendOptimizer(Graph& graph, std::vector<NormPart>& parts);

}  // namespace shardc::step

#endif  // SHARDC_STEP_OPTIMIZER_H_
