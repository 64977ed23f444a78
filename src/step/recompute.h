// Rematerialisation: forward values that a gradient checkpoint policy does not
// keep are computed again in the backward phase.
#ifndef SHARDC_STEP_RECOMPUTE_H_
#define SHARDC_STEP_RECOMPUTE_H_

#include "model/step_graph.h"
#include "step/remat.h"

namespace shardc::step {

// Changes a graph so that its backward phase rematerialises values. The graph
// must have its backward phase (vjp.h) and no optimizer. The rematerialising
// ops of a layer are placed together, before the first op of the layer's
// backward pass. Values from outside the layer, and values that other layers
// read, are kept. Values of the layer are kept if the policy keeps them and the
// backward phase reads them.
void Recompute(Graph& graph, const Remat& policy);

}  // namespace shardc::step

#endif  // SHARDC_STEP_RECOMPUTE_H_
