// Reverse-mode differentiation of a step's graph.
#ifndef SHARDC_STEP_VJP_H_
#define SHARDC_STEP_VJP_H_

#include "model/step_graph.h"

namespace shardc::step {

// Appends the ops of the backward phase and sets `gradients`. Does nothing for
// a graph without a loss. A parameter has no gradient if it is not trained, or
// if the loss does not depend on it. An example is a bias that only changes the
// choice of experts.
//
// The op of a gradient has the sharding constraint `grad:ROLE`. The op of
// another cotangent has the constraint of its forward value, unless that
// constraint applies to the forward pass only (IsForwardOnly).
void Differentiate(Graph& graph);

}  // namespace shardc::step

#endif  // SHARDC_STEP_VJP_H_
