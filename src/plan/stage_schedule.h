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
  Place place;          // place of the name
  Place virtual_place;  // place of `virtual_stages`
  // Whether the schedule is declared in a file, so that messages name its keys
  // and not flags.
  bool declared = false;
};

// Makes the table, or reads it from a file. If the request states no number of
// ranks, a schedule with a name gets one rank. If it states no number of
// micro-batches, the schedule gets two for each rank, or the nearest number
// that the schedule allows. Returns nullopt after a finding: usage,
// unknown-name, limit, schedule-refuses, or a finding of reading the file.
std::optional<schedule::Table> MakeScheduleTable(const ScheduleRequest& request,
                                                 Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PLAN_STAGE_SCHEDULE_H_
