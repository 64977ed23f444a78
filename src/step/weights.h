// Values that are weights: parameters, and what is made of them alone, such as
// the halves of one or `1 + scale` of a norm.
#ifndef SHARDC_STEP_WEIGHTS_H_
#define SHARDC_STEP_WEIGHTS_H_

#include <vector>

#include "model/step_graph.h"

namespace shardc::step {

// By value, 0 or 1.
std::vector<char> FindWeights(const Graph& graph);

}  // namespace shardc::step

#endif  // SHARDC_STEP_WEIGHTS_H_
