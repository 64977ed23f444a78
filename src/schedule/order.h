// Proof that a table computes a step: every task once, on the rank that has its
// stage, after what it reads.
#ifndef SHARDC_SCHEDULE_ORDER_H_
#define SHARDC_SCHEDULE_ORDER_H_

#include <optional>
#include <string>
#include <vector>

#include "schedule/table.h"

namespace shardc::schedule {

// A fault of a table, and the cell that has it.
struct Fault {
  int32_t rank = 0;
  int32_t position = 0;  // in the row, from 0; the row's size: at its end
  std::string text;      // lower case, no final period, tasks in backticks
};

// Checks every cell, then that no rank waits for itself: the order of each row
// and the dependencies between tasks have no cycle. Returns the faults by rank
// and position, at most `most`. Time is linear in the number of tasks.
std::vector<Fault> CheckOrder(const Table& table, size_t most = 20);

// The first task that a cell's task needs from another stage: F of the stage
// before, or B or I of the stage after. Nullopt at the ends of the model.
std::optional<Task> NeededFromNeighbour(const Task& task, int32_t stages);

}  // namespace shardc::schedule

#endif  // SHARDC_SCHEDULE_ORDER_H_
