// Leaves out of a graph what nothing needs.
#ifndef SHARDC_STEP_PRUNE_H_
#define SHARDC_STEP_PRUNE_H_

#include "model/step_graph.h"

namespace shardc::step {

// Of a forward graph: ops and data that neither its loss, its logits nor a
// cache is made of go, and values are numbered anew. Parameters stay: devices
// hold them.
void Prune(Graph& graph);

}  // namespace shardc::step

#endif  // SHARDC_STEP_PRUNE_H_
