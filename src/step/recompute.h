// Rematerialisation: forward values that a gradient checkpoint policy does not
// keep are computed again in the backward phase, which reads them.
#ifndef SHARDC_STEP_RECOMPUTE_H_
#define SHARDC_STEP_RECOMPUTE_H_

#include "model/step_graph.h"
#include "step/remat.h"

namespace shardc::step {

// Changes a graph with its backward phase (vjp.h) and without the optimizer.
// The recomputed ops of a layer come together, before the first op of the
// layer's backward pass. Values from outside the layer or read by other layers
// are kept, and so are values of the layer that the policy keeps and the
// backward phase reads.
void Recompute(Graph& graph, const Remat& policy);

}  // namespace shardc::step

#endif  // SHARDC_STEP_RECOMPUTE_H_
