// The functions that generate a rank's row, one for each family of schedules.
#ifndef SHARDC_SCHEDULE_FILL_H_
#define SHARDC_SCHEDULE_FILL_H_

#include <cstdint>
#include <vector>

#include "schedule/table.h"

namespace shardc::schedule {

// The parameters of schedules that alternate a forward task with a backward one
// (turns.cc).
struct Turns {
  int64_t warm = 0;    // forward tasks before the first backward task
  bool split = false;  // I and W instead of B
  int64_t delay = 0;   // turns from the first I to the first W
};
void FillTurns(const Extent& extent, int32_t rank, const Turns& turns,
               std::vector<Cell>& row);
// Returns the number of micro-batches in a round, m / max(1, m / p) for m
// micro-batches on p ranks. A rank runs all micro-batches of a round through
// one of its stages before it begins with the next stage.
int32_t RoundSize(const Extent& extent);

void FillZeroBubbleH2(const Extent& extent, int32_t rank,
                      std::vector<Cell>& row);
void FillBreadthFirst(const Extent& extent, int32_t rank,
                      std::vector<Cell>& row);
void FillZeroBubbleV(const Extent& extent, int32_t rank,
                     std::vector<Cell>& row);
void FillDualPipe(const Extent& extent, int32_t rank, std::vector<Cell>& row);
void FillDualPipeV(const Extent& extent, int32_t rank, std::vector<Cell>& row);

}  // namespace shardc::schedule

#endif  // SHARDC_SCHEDULE_FILL_H_
