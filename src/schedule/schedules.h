// Finds a pipeline schedule by its name, and checks the sizes that it accepts.
#ifndef SHARDC_SCHEDULE_SCHEDULES_H_
#define SHARDC_SCHEDULE_SCHEDULES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/table.h"

namespace shardc::schedule {

struct Schedule {
  std::string_view name;
  std::string_view summary;    // describes the schedule; has no final period
  int32_t virtual_stages = 1;  // the default number of stages on each rank
  bool fixed_virtual = true;   // true if no other number is accepted
  Placement placement = Placement::kLoop;
  // Returns why the schedule does not accept the numbers of ranks and
  // micro-batches; empty if it accepts them. The number of virtual stages is
  // not checked here, but by Refusal(). The pointer is null if the schedule
  // accepts all numbers of ranks and micro-batches.
  std::string (*refuses)(std::string_view name, const Extent&) = nullptr;
  // Appends the tasks of one rank to its row.
  void (*fill)(const Extent&, int32_t rank, std::vector<Cell>& row) = nullptr;
};

// Returns all schedules, in the order of the documentation.
std::span<const Schedule> Schedules();
const Schedule* FindSchedule(std::string_view name);

// Returns why a schedule does not accept the numbers of ranks, virtual stages
// and micro-batches in `extent`, such as "zbv places exactly 2 stages on a
// rank, not 3". Returns nullopt if it accepts them.
std::optional<std::string> Refusal(const Schedule& schedule,
                                   const Extent& extent);
// Returns the number of micro-batches, from 1 to kMostTasks, that the schedule
// accepts and that is nearest to that of `extent`. If two are equally near,
// returns the lower one. Numbers that differ by more than twice the number of
// ranks are not tried; returns nullopt if no tried number is accepted.
std::optional<int32_t> NearestMicrobatches(const Schedule& schedule,
                                           const Extent& extent);

// Returns the table of a schedule. The schedule must accept `extent` (see
// Refusal()), and the table may have at most kMostTasks tasks.
Table MakeTable(const Schedule& schedule, const Extent& extent);
// Returns the largest number of tasks that a table with these sizes can have:
// F, I and W for each stage and micro-batch.
int64_t TaskCount(const Extent& extent);

// Divides a chain of units (the embedding, the layers, the output head) into
// pipeline stages.

struct Unit {
  double time = 0;    // relative time of a micro-batch, forward and backward
  int64_t bytes = 0;  // bytes that are held during the whole step
  int64_t kept = 0;   // bytes of activations that one micro-batch keeps
};

// The index of the first unit of each stage, followed by the number of units.
// For example, {0, 9, 18, 26, 34} are four stages. A stage may be empty, but
// the first unit is in the first stage and the last unit in the last stage.
using StageBounds = std::vector<int64_t>;

// Returns the division whose longest stage is the shortest. Only divisions are
// considered in which no stage has more than `capacity` bytes; nullopt sets no
// limit. Stage s holds the activations of `in_flight[s]` micro-batches. If
// several divisions have equally long stages, the one whose fullest stage has
// the fewest bytes is preferred. This preference is applied to each prefix of
// the units separately, so a division with fewer bytes may exist. Returns
// nullopt if no division fits, or if there are no units, no stages, or one unit
// for several stages. The run time is proportional to stages * units^2.
std::optional<StageBounds> AssignUnits(std::span<const Unit> units,
                                       std::span<const int64_t> in_flight,
                                       std::optional<int64_t> capacity);

// Divides layers evenly: stage s of S begins at layer s * layers / S. The first
// stage also has the first unit (the embedding), and the last stage the last
// unit (the output head).
StageBounds EvenStages(int64_t layers, int64_t stages);

}  // namespace shardc::schedule

#endif  // SHARDC_SCHEDULE_SCHEDULES_H_
