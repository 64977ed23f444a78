// Derives the shardings of ops that split, merge or repeat dimensions.
#ifndef SHARDC_STEP_FACTORS_H_
#define SHARDC_STEP_FACTORS_H_

#include <vector>

#include "step/program.h"

namespace shardc::step {

// The shardings of the operand and the result of an op that splits or merges a
// dimension, repeats heads or sums groups of heads. PassThrough() chooses them
// so that every device computes its part of the result without communication.
// `wanted` is the preferred sharding of the result, or null.
struct Structural {
  Sharding operand = {};
  Sharding result = {};
};
Structural PassThrough(const Graph& graph, const Op& op, const Axes& axes,
                       const Sizes& sizes, const Sharding& operand,
                       const Sharding* wanted);
// Returns the sharding of the operand with which the result has the sharding
// `wanted`. Axes of `wanted` are left out if the op cannot shard its result
// over them without communication.
Sharding PullBack(const Graph& graph, const Op& op, const Axes& axes,
                  const Sizes& sizes, const Sharding& wanted);

}  // namespace shardc::step

#endif  // SHARDC_STEP_FACTORS_H_
