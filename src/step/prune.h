// Removes the ops of a graph whose results are not needed.
#ifndef SHARDC_STEP_PRUNE_H_
#define SHARDC_STEP_PRUNE_H_

#include "model/step_graph.h"

namespace shardc::step {

// Removes from a forward graph the ops and data on which neither the loss nor
// the logits nor the caches depend, and renumbers the values. Parameters are
// not removed, because devices hold them.
void Prune(Graph& graph);

}  // namespace shardc::step

#endif  // SHARDC_STEP_PRUNE_H_
