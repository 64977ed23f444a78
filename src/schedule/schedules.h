// The pipeline schedules by name, and the sizes that each accepts.
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
  std::string_view summary;    // lower case, no final period
  int32_t virtual_stages = 1;  // the default number on each rank
  bool fixed_virtual = true;   // whether no other number is accepted
  Placement placement = Placement::kLoop;
  // Returns why the schedule does not accept the sizes; empty if it accepts
  // them. The number of virtual stages is checked by Refusal(). Null if all
  // other sizes are accepted.
  std::string (*refuses)(std::string_view name, const Extent&) = nullptr;
  void (*fill)(const Extent&, int32_t rank, std::vector<Cell>& row) = nullptr;
};

// Returns all schedules, in the order of the documentation.
std::span<const Schedule> Schedules();
const Schedule* FindSchedule(std::string_view name);

// Returns why a schedule does not accept sizes, such as "zbv places exactly 2
// stages on a rank, not 3", or nullopt if it accepts them.
std::optional<std::string> Refusal(const Schedule& schedule,
                                   const Extent& extent);
// Returns the accepted number of micro-batches, from 1 to kMostTasks, that is
// nearest to the given one. If two are equally near, returns the lower. Returns
// nullopt if no number that differs by at most twice the number of ranks is
// accepted.
std::optional<int32_t> NearestMicrobatches(const Schedule& schedule,
                                           const Extent& extent);

// Returns the table of a schedule. The schedule must accept `extent` (see
// Refusal), and the table may have at most kMostTasks tasks.
Table MakeTable(const Schedule& schedule, const Extent& extent);
// Returns the largest number of tasks of a table with these sizes: F, I and W
// for each stage and micro-batch.
int64_t TaskCount(const Extent& extent);

}  // namespace shardc::schedule

#endif  // SHARDC_SCHEDULE_SCHEDULES_H_
