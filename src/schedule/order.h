// Proves that a table computes a step: it has every task once, on the rank that
// owns the stage, after the tasks whose results it reads.
#ifndef SHARDC_SCHEDULE_ORDER_H_
#define SHARDC_SCHEDULE_ORDER_H_

#include <optional>
#include <string>
#include <vector>

#include "schedule/table.h"

namespace shardc::schedule {

// An error in a table, and the cell that has it.
struct Fault {
  int32_t rank = 0;
  int32_t position = 0;  // index in the row; the row's size: after its end
  std::string text;      // lower case, no final period, tasks in backticks
};

// Checks every cell and that no task is missing. If these checks find no fault,
// checks that the order of the rows together with the dependencies between
// tasks has no cycle. Returns at most `most` faults, sorted by rank and
// position. Time is linear in the number of tasks.
std::vector<Fault> CheckOrder(const Table& table, size_t most = 20);

// Returns the task of another stage whose result a task needs: for F the
// forward task of the stage before; for B and I the backward task of the stage
// after, returned as B even if the table has an I. Returns nullopt for W and at
// the ends of the model.
std::optional<Task> NeededFromNeighbour(const Task& task, int32_t stages);

}  // namespace shardc::schedule

#endif  // SHARDC_SCHEDULE_ORDER_H_
