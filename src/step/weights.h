// Finds the values that count as weights: parameters, and values made of
// parameters alone, such as the halves of a fused weight or `1 + scale` of a
// norm.
#ifndef SHARDC_STEP_WEIGHTS_H_
#define SHARDC_STEP_WEIGHTS_H_

#include <vector>

#include "model/step_graph.h"

namespace shardc::step {

// Returns 0 or 1 for each value.
std::vector<char> FindWeights(const Graph& graph);

}  // namespace shardc::step

#endif  // SHARDC_STEP_WEIGHTS_H_
