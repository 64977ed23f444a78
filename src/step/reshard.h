// Plans the slices and collectives that reshard a value from one sharding to
// another. Each step changes the dimension `dim`, except that an all_reduce
// changes no dimension. An all_to_all moves an axis from the dimension `other`
// to `dim`.
#ifndef SHARDC_STEP_RESHARD_H_
#define SHARDC_STEP_RESHARD_H_

#include <vector>

#include "step/program.h"

namespace shardc::step {

struct ReshardStep {
  InstructionKind kind = InstructionKind::kSlice;  // kSlice or kCollective
  Collective collective = Collective::kAllGather;
  AxisList axes = {};
  uint8_t dim = 0;
  uint8_t other = 0;
  Sharding after = {};
};

// Returns the steps in the order in which they run; no steps if the shardings
// are equal. `from` must be partial over all axes over which `to` is partial.
std::vector<ReshardStep> PlanReshard(const Sharding& from, const Sharding& to);

// The cost of steps that reshard a value from the sharding `from`: the bytes
// that the busiest device sends in all steps, and the number of collectives.
struct ReshardCost {
  int64_t bytes = 0;
  int64_t collectives = 0;
};
ReshardCost CostOf(const std::vector<ReshardStep>& steps, const Axes& axes,
                   const Value& value, const Sharding& from, const Sizes& sizes,
                   int64_t element_bytes);

}  // namespace shardc::step

#endif  // SHARDC_STEP_RESHARD_H_
