// The collectives that lead from one sharding of a value to another.
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

// Returns the steps in order; none if the shardings are equal. Axes over which
// `to` is partial must be partial in `from` too.
std::vector<ReshardStep> PlanReshard(const Sharding& from, const Sharding& to);

// The bytes that the busiest device sends for the steps, starting from `from`,
// and the number of collectives.
struct ReshardCost {
  int64_t bytes = 0;
  int64_t collectives = 0;
};
ReshardCost CostOf(const std::vector<ReshardStep>& steps, const Axes& axes,
                   const Value& value, const Sharding& from, const Sizes& sizes,
                   int64_t element_bytes);

}  // namespace shardc::step

#endif  // SHARDC_STEP_RESHARD_H_
