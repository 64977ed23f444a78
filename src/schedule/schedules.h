// The schedules by name, and the sizes that each accepts.
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
  int32_t virtual_stages = 1;  // the default
  bool fixed_virtual = true;   // whether no other number is accepted
  Placement placement = Placement::kLoop;
  // Returns why the sizes are refused, or an empty text; the number of virtual
  // stages is checked elsewhere. Null if all sizes are accepted.
  std::string (*refuses)(std::string_view name, const Extent&) = nullptr;
  // Fills the row of one rank.
  void (*fill)(const Extent&, int32_t rank, std::vector<Cell>& row) = nullptr;
};

// In the order of the documentation.
std::span<const Schedule> Schedules();
// Null if there is none.
const Schedule* FindSchedule(std::string_view name);

// Returns why a schedule refuses sizes, or nullopt if it accepts them: "zbv
// places exactly 2 virtual stages on a rank, not 3".
std::optional<std::string> Refusal(const Schedule& schedule,
                                   const Extent& extent);
// Returns the nearest number of micro-batches above 0 that is accepted, the
// lower one of two; nullopt if no number is.
std::optional<int32_t> NearestMicrobatches(const Schedule& schedule,
                                           const Extent& extent);

// `extent` must be one that the schedule accepts (see Refusal), with at most
// kMostTasks tasks.
Table MakeTable(const Schedule& schedule, const Extent& extent);
// Returns the number of tasks, F, I and W counted apart.
int64_t TaskCount(const Extent& extent);

}  // namespace shardc::schedule

#endif  // SHARDC_SCHEDULE_SCHEDULES_H_
