// The time of a step, and what each rank holds, by running a table.
#ifndef SHARDC_SCHEDULE_SIMULATE_H_
#define SHARDC_SCHEDULE_SIMULATE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/table.h"

namespace shardc::schedule {

// Times of the tasks of a stage, in any unit. B takes the time of I and W.
struct StageTimes {
  double forward = 1, input = 1, weight = 1;
};

struct Times {
  std::vector<StageTimes> stages;  // by stage
  // hop_forward[s]: the time from the end of a task of stage s to the arrival
  // of its message at stage s + 1. hop_back[s]: the same for a gradient from
  // stage s + 1 to stage s. Empty: messages take no time. Stages on one rank
  // send nothing.
  std::vector<double> hop_forward = {}, hop_back = {};
  // Whether a rank computes nothing while it sends.
  bool exposed = false;
  // The time of an overlapped pair, as a fraction of the sum of its tasks'
  // times.
  double overlap = 1;
};

struct Interval {
  double begin = 0, end = 0;
};

struct RankTime {
  double first = 0;  // begin of its first task
  double last = 0;   // end of its last task
  double busy = 0;
};

struct Timeline {
  double step = 0;  // until the last rank ends
  std::vector<RankTime> ranks;
  std::vector<std::vector<Interval>> cells;  // as the table's rows

  // The longest time from a rank's own first task to its last.
  double LongestRank() const;
  // The fraction of a step, and of the longest rank's time, in which ranks do
  // not compute, averaged over the ranks: 0.25 is a quarter.
  double StepBubble() const;
  double RankBubble() const;
};

// The table's order must be proven, and `times` have all of its stages.
// Time is linear in the number of tasks.
Timeline Simulate(const Table& table, const Times& times);

// The most micro-batches of stages whose activations a rank holds at once, each
// from its forward task until its B or W, weighted by stage. Empty weights are
// all 1.
std::vector<int64_t> HeldByRank(const Table& table,
                                std::span<const int64_t> weights = {});

}  // namespace shardc::schedule

#endif  // SHARDC_SCHEDULE_SIMULATE_H_
