// The shardings of ops that split, merge or repeat dimensions.
#ifndef SHARDC_STEP_FACTORS_H_
#define SHARDC_STEP_FACTORS_H_

#include <vector>

#include "step/program.h"

namespace shardc::step {

// The shardings that PassThrough returns for an op that splits or merges a
// dimension, repeats heads or sums groups of heads. With the sharding `operand`
// of its operand, every device can compute its part of the result, which then
// has the sharding `result`. `wanted` is the preferred sharding of the result,
// or null.
struct Structural {
  Sharding operand = {};
  Sharding result = {};
};
Structural PassThrough(const Graph& graph, const Op& op, const Axes& axes,
                       const Sizes& sizes, const Sharding& operand,
                       const Sharding* wanted);
// Returns the operand's sharding with which the result has the sharding
// `wanted`, or as much of it as is possible.
Sharding PullBack(const Graph& graph, const Op& op, const Axes& axes,
                  const Sizes& sizes, const Sharding& wanted);

}  // namespace shardc::step

#endif  // SHARDC_STEP_FACTORS_H_
