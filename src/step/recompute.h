// What a gradient checkpoint policy makes of a step: forward values that it
// does not keep are computed anew where the backward phase reads them.
#ifndef SHARDC_STEP_RECOMPUTE_H_
#define SHARDC_STEP_RECOMPUTE_H_

#include "model/step_graph.h"
#include "step/remat.h"

namespace shardc::step {

// Of a graph with its backward phase (vjp.h) and without the optimizer. A layer
// is what is computed anew at once, in front of the first op of its backward:
// what comes from outside it is kept, and of its own values those that the
// policy may keep and that are asked for.
void Recompute(Graph& graph, const Remat& policy);

}  // namespace shardc::step

#endif  // SHARDC_STEP_RECOMPUTE_H_
