// Proves that a table computes a training step: it has every task once, on the
// rank that owns the stage, and after the tasks whose results it reads.
#ifndef SHARDC_SCHEDULE_ORDER_H_
#define SHARDC_SCHEDULE_ORDER_H_

#include <cstdint>
#include <optional>
#include <span>
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

// The times of the tasks F, I and W of one stage, in any unit. The time of a
// task B is the sum of `input` and `weight`.
struct StageTimes {
  double forward = 1, input = 1, weight = 1;
};

struct Times {
  std::vector<StageTimes> stages;  // indexed by stage
  // hop_forward[s] is the time from the end of a forward task of stage s to the
  // arrival of its message at stage s + 1. hop_back[s] is the time from the end
  // of a backward task of stage s + 1 to the arrival of the gradient at stage
  // s. If the vectors are empty, messages take no time. Stages on one rank send
  // no messages.
  std::vector<double> hop_forward = {}, hop_back = {};
  // Whether a rank cannot compute while it sends.
  bool exposed = false;
  // The time of two overlapped tasks, as a fraction of the sum of their times.
  // Exposed sends are added in full.
  double overlap = 1;
};

struct Interval {
  double begin = 0, end = 0;
};

struct RankTime {
  double first = 0;  // begin of the rank's first task
  double last = 0;   // end of the rank's last task
  // The sum of the times of the rank's tasks and, if Times::exposed is set, of
  // its sends.
  double busy = 0;
};

struct Timeline {
  double step = 0;  // time until the last rank ends
  std::vector<RankTime> ranks;
  std::vector<std::vector<Interval>> cells;  // indexed as Table::rows

  // Returns the longest time from the first task of a rank to its last one.
  double LongestRank() const;
  // StepBubble() returns the idle fraction of the step, averaged over the
  // ranks: 0.25 means a quarter. A rank is idle while it neither computes nor,
  // if Times::exposed is set, sends. RankBubble() returns the idle fraction of
  // the time LongestRank() instead of the time of the step.
  double StepBubble() const;
  double RankBubble() const;
};

// Simulates a table. The table must have passed CheckOrder(), and `times` must
// have all its stages. The run time is linear in the number of tasks.
Timeline Simulate(const Table& table, const Times& times);

// Returns, for each rank, the largest number of micro-batches whose activations
// it holds at the same time. A rank holds a micro-batch from its task F until
// its task B or W. Each micro-batch on stage s adds `weights[s]` to the number,
// or 1 if `weights` is empty.
std::vector<int64_t> HeldByRank(const Table& table,
                                std::span<const int64_t> weights = {});

// Returns, for each stage, the largest number of micro-batches whose
// activations of this stage a rank holds at the same time.
std::vector<int64_t> HeldByStage(const Table& table);

}  // namespace shardc::schedule

#endif  // SHARDC_SCHEDULE_ORDER_H_
