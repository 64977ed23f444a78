// From one layout of a value to another: which collectives, in which order.
#ifndef SHARDC_STEP_MOVE_H_
#define SHARDC_STEP_MOVE_H_

#include <vector>

#include "step/program.h"

namespace shardc::step {

struct Move {
  InstructionKind kind = InstructionKind::kSlice;  // or kCollective
  Collective collective = Collective::kAllGather;
  AxisList axes = {};
  uint8_t dim = 0;
  uint8_t other = 0;
  Layout after = {};
};

// Nothing where the layouts are the same. What is pending in `to` is pending
// in `from` too.
std::vector<Move> PlanMoves(const Layout& from, const Layout& to);

// What one device sends for moves of a value from `from`, and by how many
// collectives.
struct MoveCost {
  int64_t bytes = 0;
  int64_t collectives = 0;
};
MoveCost CostOf(const std::vector<Move>& moves, const Axes& axes,
                const Value& value, const Layout& from, const Sizes& sizes,
                int64_t element_bytes);

}  // namespace shardc::step

#endif  // SHARDC_STEP_MOVE_H_
