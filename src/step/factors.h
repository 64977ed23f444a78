// Shardings across ops that split, merge or repeat dimensions.
#ifndef SHARDC_STEP_FACTORS_H_
#define SHARDC_STEP_FACTORS_H_

#include <vector>

#include "step/program.h"

namespace shardc::step {

// For an op that splits or merges a dimension, repeats heads or sums groups of
// them: the sharding that the operand must have so that every device can
// compute its part of the result, and the result's sharding. `wanted` is the
// preferred sharding of the result; may be null.
struct Structural {
  Sharding operand = {};
  Sharding result = {};
};
Structural PassThrough(const Graph& graph, const Op& op, const Axes& axes,
                       const Sizes& sizes, const Sharding& operand,
                       const Sharding* wanted);
// Returns the sharding of the operand from which the result gets the sharding
// `wanted`, or as much of it as is possible.
Sharding PullBack(const Graph& graph, const Op& op, const Axes& axes,
                  const Sizes& sizes, const Sharding& wanted);

}  // namespace shardc::step

#endif  // SHARDC_STEP_FACTORS_H_
