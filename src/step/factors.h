// How axes go over between a dimension and what it is made of.
#ifndef SHARDC_STEP_FACTORS_H_
#define SHARDC_STEP_FACTORS_H_

#include <vector>

#include "step/program.h"

namespace shardc::step {

// Of an op that splits, merges, repeats or sums groups: how its operand must
// lie so that every device has what its part of the result is made of, and how
// the result then lies. `wanted` (may be null) is how the result is wished.
struct Structural {
  Sharding operand = {};
  Sharding result = {};
};
Structural PassThrough(const Graph& graph, const Op& op, const Axes& axes,
                       const Sizes& sizes, const Sharding& operand,
                       const Sharding* wanted);
// The operand's layout from which the result comes out as wanted, as far as
// there is one.
Sharding PullBack(const Graph& graph, const Op& op, const Axes& axes,
                  const Sizes& sizes, const Sharding& wanted);

}  // namespace shardc::step

#endif  // SHARDC_STEP_FACTORS_H_
