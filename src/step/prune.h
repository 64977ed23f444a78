// Removes ops whose results are not needed.
#ifndef SHARDC_STEP_PRUNE_H_
#define SHARDC_STEP_PRUNE_H_

#include "model/step_graph.h"

namespace shardc::step {

// Removes from a forward graph the ops and data that neither loss, logits nor
// caches depend on, and renumbers values. Parameters stay, since devices hold
// them.
void Prune(Graph& graph);

}  // namespace shardc::step

#endif  // SHARDC_STEP_PRUNE_H_
