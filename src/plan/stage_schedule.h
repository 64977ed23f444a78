// Makes the table of the schedule that a flag or a `stages:` section names.
#ifndef SHARDC_PLAN_STAGE_SCHEDULE_H_
#define SHARDC_PLAN_STAGE_SCHEDULE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "schedule/table.h"
#include "source/finding.h"

namespace shardc {

struct ScheduleRequest {
  std::string name;  // name of a schedule, or path of a file
  bool is_file = false;
  std::optional<int32_t> ranks, virtual_stages, microbatches;
  Place place;          // of the name
  Place virtual_place;  // of `virtual_stages`
  // Whether messages name the keys of a file instead of flags.
  bool declared = false;
};

// Makes the table, or reads it from a file. If the request gives no number of
// ranks, a schedule by name has one rank. If it gives no number of
// micro-batches, the schedule has two for each rank, or the nearest number that
// it accepts. Returns nullopt after a finding: usage, unknown-name, limit,
// schedule-refuses, or one of reading a file.
std::optional<schedule::Table> MakeScheduleTable(const ScheduleRequest& request,
                                                 Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PLAN_STAGE_SCHEDULE_H_
