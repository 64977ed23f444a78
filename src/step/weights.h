// Finds the values that are treated as weights: parameters, and values that
// depend on parameters only, such as the halves of a fused weight or `1 +
// scale` of a norm.
#ifndef SHARDC_STEP_WEIGHTS_H_
#define SHARDC_STEP_WEIGHTS_H_

#include <vector>

#include "model/step_graph.h"

namespace shardc::step {

// Returns for each value 1 if it is treated as a weight, else 0.
std::vector<char> FindWeights(const Graph& graph);

}  // namespace shardc::step

#endif  // SHARDC_STEP_WEIGHTS_H_
