// Computes the sizes of a step's labels.
#ifndef SHARDC_STEP_SIZES_H_
#define SHARDC_STEP_SIZES_H_

#include <cstdint>

#include "model/step_graph.h"
#include "step/build.h"

namespace shardc::step {

// Returns the sizes for `batch` sequences of `length` tokens. In decoding, each
// sequence has one token after a cache of `length` tokens. If the queue of an
// expert has no limit, it has as many slots as it needs when all experts get
// the same number of tokens.
Sizes RealSizes(const StepModel& step, int64_t batch, int64_t length);

// If there is no configuration, passes to the formulas the sizes that
// AssignRoles has inferred from shapes.
void SetInferredSizes(const ModelDescription& description, const Roles& roles,
                      Formulas& formulas);

// Sets the sizes of labels with factors or parts, and of the rows of a block in
// ring attention.
void FinishSizes(const Graph& graph, Sizes& sizes);

}  // namespace shardc::step

#endif  // SHARDC_STEP_SIZES_H_
