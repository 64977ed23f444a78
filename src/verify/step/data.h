// The inputs on which a step is run: parameters, moments, tokens and caches.
#ifndef SHARDC_VERIFY_STEP_DATA_H_
#define SHARDC_VERIFY_STEP_DATA_H_

#include <cstdint>

#include "dense/step.h"
#include "exec/step/run.h"
#include "model/step_graph.h"

namespace shardc::verify {

// The inputs of the devices, in `dtype`, and the same numbers for the dense
// reference.
struct StepData {
  exec::StepInputs inputs = {};
  dense::StepValues<double> values = {};
};
// Creates the inputs of a step. They are chosen so that mistakes change
// results. Weights of norms are not 1 and biases are not 0. Rows have different
// numbers of tokens, so that the mean of the rows' means differs from the mean
// over all tokens. Unused cache rows hold large numbers. Second moments have a
// lower bound, so that updates are well conditioned.
StepData MakeStepData(const step::Graph& graph, const step::Sizes& sizes,
                      Dtype dtype, uint64_t seed);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_STEP_DATA_H_
