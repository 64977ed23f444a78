// A step in several micro-batches, whose gradients are added.
#ifndef SHARDC_STEP_ACCUMULATE_H_
#define SHARDC_STEP_ACCUMULATE_H_

#include <cstdint>

#include "model/step_graph.h"

namespace shardc::step {

enum class Reduction : uint8_t {
  kOnce,  // gradients are added as they are, and reduced after the last
  kEach,  // each micro-batch reduces its own
};

// Of the graph of one micro-batch with its backward phase and without the
// optimizer. Each runs forward and back before the next begins, on data of its
// own; losses are divided by the tokens of all of them. False where the loss is
// no sum over its tokens' number.
bool Accumulate(Graph& graph, int64_t micro_batches, Reduction reduction);

}  // namespace shardc::step

#endif  // SHARDC_STEP_ACCUMULATE_H_
