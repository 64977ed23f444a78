// Proves that a table computes a training step: it has every task once, on the
// rank that owns the stage, and after the tasks whose results it reads.
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
  // The index of the cell in its row; the row's length for an error at its end.
  int32_t position = 0;
  // The message, in lower case, without a final period, tasks in backticks.
  std::string text;
};

// Checks every cell, and whether a task is missing. If no fault is found,
// checks that the order of the rows and the dependencies between tasks form no
// cycle. Returns at most `most` faults, sorted by rank and position. The run
// time is linear in the number of tasks.
std::vector<Fault> CheckOrder(const Table& table, size_t most = 20);

// Returns the task of another stage whose result a task needs. For F, it is the
// forward task of the stage before. For B and I, it is the backward task of the
// stage after, which is returned as B even if the table has an I. Returns
// nullopt for W, and if there is no such stage.
std::optional<Task> NeededFromNeighbour(const Task& task, int32_t stages);

}  // namespace shardc::schedule

#endif  // SHARDC_SCHEDULE_ORDER_H_
