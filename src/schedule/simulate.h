// Simulates a table: the time of a step, and how many micro-batches each rank
// holds.
#ifndef SHARDC_SCHEDULE_SIMULATE_H_
#define SHARDC_SCHEDULE_SIMULATE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/table.h"

namespace shardc::schedule {

// The times of a stage's tasks, in any unit. A task B takes the sum of input
// and weight.
struct StageTimes {
  double forward = 1, input = 1, weight = 1;
};

struct Times {
  std::vector<StageTimes> stages;  // indexed by stage
  // hop_forward[s] is the time from the end of a task of stage s to the arrival
  // of its message at stage s + 1, and hop_back[s] the same for a gradient from
  // stage s + 1 to stage s. If empty, messages take no time. Stages on one rank
  // send no messages.
  std::vector<double> hop_forward = {}, hop_back = {};
  // Whether a rank computes nothing while it sends.
  bool exposed = false;
  // The time of an overlapped pair, as a fraction of the sum of its tasks'
  // times. Exposed sends are added to it in full.
  double overlap = 1;
};

struct Interval {
  double begin = 0, end = 0;
};

struct RankTime {
  double first = 0;  // begin of the rank's first task
  double last = 0;   // end of the rank's last task
  double busy = 0;   // sum of the times of its tasks and exposed sends
};

struct Timeline {
  double step = 0;  // until the last rank ends
  std::vector<RankTime> ranks;
  std::vector<std::vector<Interval>> cells;  // indexed like Table::rows

  // Returns the longest time from a rank's own first task to its last.
  double LongestRank() const;
  // StepBubble() returns the fraction of the step in which a rank neither
  // computes nor, if Times::exposed, sends, averaged over the ranks: 0.25 means
  // a quarter. RankBubble() returns the same fraction of LongestRank() instead
  // of the step.
  double StepBubble() const;
  double RankBubble() const;
};

// Simulates a table. Its order must be proven (CheckOrder), and `times` must
// have all of its stages. Takes time linear in the number of tasks.
Timeline Simulate(const Table& table, const Times& times);

// Returns for each rank the largest number of micro-batches whose activations
// it holds at the same time. A rank holds a micro-batch from its forward task
// until its B or W. Each micro-batch on stage s adds `weights[s]` to the
// number, or 1 if `weights` is empty.
std::vector<int64_t> HeldByRank(const Table& table,
                                std::span<const int64_t> weights = {});

}  // namespace shardc::schedule

#endif  // SHARDC_SCHEDULE_SIMULATE_H_
