// The backward pass of a step's graph, by one rule an op.
#ifndef SHARDC_STEP_VJP_H_
#define SHARDC_STEP_VJP_H_

#include "model/step_graph.h"

namespace shardc::step {

// Appends ops of the backward phase for a graph with a loss and fills
// `gradients`: absent for parameters that the loss does not depend on, such as
// what only takes part in a choice. A gradient's op has the anchor `grad:ROLE`,
// another cotangent that of its value.
void Differentiate(Graph& graph);

}  // namespace shardc::step

#endif  // SHARDC_STEP_VJP_H_
