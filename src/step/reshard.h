// From one layout of a value to another: which collectives, in which order.
#ifndef SHARDC_STEP_RESHARD_H_
#define SHARDC_STEP_RESHARD_H_

#include <vector>

#include "step/program.h"

namespace shardc::step {

struct ReshardStep {
  InstructionKind kind = InstructionKind::kSlice;  // or kCollective
  Collective collective = Collective::kAllGather;
  AxisList axes = {};
  uint8_t dim = 0;
  uint8_t other = 0;
  Sharding after = {};
};

// Nothing where the layouts are the same. What is pending in `to` is pending
// in `from` too.
std::vector<ReshardStep> PlanReshard(const Sharding& from, const Sharding& to);

// What one device sends for steps of a value from `from`, and by how many
// collectives.
struct ReshardCost {
  int64_t bytes = 0;
  int64_t collectives = 0;
};
ReshardCost CostOf(const std::vector<ReshardStep>& steps, const Axes& axes,
                   const Value& value, const Sharding& from, const Sizes& sizes,
                   int64_t element_bytes);

}  // namespace shardc::step

#endif  // SHARDC_STEP_RESHARD_H_
