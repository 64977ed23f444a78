// Appends the optimizer to a step: gradients are clipped by their global norm,
// and AdamW with decoupled weight decay updates the parameters.
#ifndef SHARDC_STEP_OPTIMIZER_H_
#define SHARDC_STEP_OPTIMIZER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/step_graph.h"

namespace shardc::step {

// Appends the optimizer, with the settings of `graph.adam`, to a graph with
// gradients. Adds the moments as inputs of the step, and sets `gradient_norm`,
// `updated` and `updated_moments`. Parameters without a gradient have no
// moments and no updates. If there are no gradients, nothing is appended. The
// sharding constraint of new parameters and moments is `new:ROLE`.
void AppendOptimizer(Graph& graph);

// The parameters whose squared gradients one rank of a pipeline adds up.
struct NormPart {
  std::vector<size_t> parameters = {};
  int32_t rank = 0;
  ValueId sum = kNoValue;  // The sum of the squares; set by AppendOptimizer().
};
// Appends the optimizer for a pipeline. Each rank adds the squares of the
// gradients of the parameters in its parts. Then the sums of all ranks are
// added. A parameter that is in no part is left out of the norm.
void AppendOptimizer(Graph& graph, std::vector<NormPart>& parts);

}  // namespace shardc::step

#endif  // SHARDC_STEP_OPTIMIZER_H_
