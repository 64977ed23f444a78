// The functions that write the row of a rank in a schedule: one for each family
// of schedules.
#ifndef SHARDC_SCHEDULE_FILL_H_
#define SHARDC_SCHEDULE_FILL_H_

#include <cstdint>
#include <vector>

#include "schedule/table.h"

namespace shardc::schedule {

// The parameters of schedules that alternate between a forward and a backward
// task. turns.cc describes these schedules.
struct Turns {
  int64_t warm = 0;    // number of forward tasks before the first backward task
  bool split = false;  // whether each backward task B is split into I and W
  // With `split`: how many turns (one forward and one backward task each) the
  // weight gradients (W) of a micro-batch come after its input gradients (I).
  int64_t delay = 0;
};
void FillTurns(const Extent& extent, int32_t rank, const Turns& turns,
               std::vector<Cell>& row);
// Returns the number of micro-batches in a round. For m micro-batches on p
// ranks it is m / max(1, m / p), such as 4 for m = 8 and p = 4. In a round, a
// rank runs the round's micro-batches through one of its stages before the next
// stage.
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
