// How large the dimensions of a step are.
#ifndef SHARDC_STEP_SIZES_H_
#define SHARDC_STEP_SIZES_H_

#include <cstdint>

#include "model/step_graph.h"
#include "step/build.h"

namespace shardc::step {

// With `batch` rows of `length` tokens; in decoding of one, after `length`. A
// queue without a limit has the slots that uniform routing fills.
Sizes RealSizes(const StepModel& step, int64_t batch, int64_t length);

// Sizes of labels with factors and parts from those of others.
void FinishSizes(const Graph& graph, Sizes& sizes);

}  // namespace shardc::step

#endif  // SHARDC_STEP_SIZES_H_
