// Finds a pipeline schedule by its name, and checks the sizes that it accepts.
#ifndef SHARDC_SCHEDULE_SCHEDULES_H_
#define SHARDC_SCHEDULE_SCHEDULES_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

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

}  // namespace shardc::schedule

#endif  // SHARDC_SCHEDULE_SCHEDULES_H_
