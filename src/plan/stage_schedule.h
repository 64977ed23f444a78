// Makes the task table of the pipeline schedule that a flag or a `stages:`
// section names.
#ifndef SHARDC_PLAN_STAGE_SCHEDULE_H_
#define SHARDC_PLAN_STAGE_SCHEDULE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "schedule/table.h"
#include "source/finding.h"

namespace shardc {

struct ScheduleRequest {
  std::string name;  // The name of a schedule, or the path of a file.
  bool is_file = false;
  std::optional<int32_t> ranks, virtual_stages, microbatches;
  Place place;          // The place of the schedule's name.
  Place virtual_place;  // The place of the number of virtual stages.
  // True if a file declares the schedule. Messages then name the keys of the
  // file instead of flags.
  bool declared = false;
};

// Makes the schedule's table of tasks, or reads it from a file. If `ranks` is
// nullopt, a schedule that is not read from a file gets one rank. If
// `microbatches` is nullopt, the schedule gets two micro-batches for each rank,
// or the nearest number that the schedule allows. On failure, returns nullopt
// and adds a finding. Its code is usage, unknown-name, limit or
// schedule-refuses, or a code of reading the file.
std::optional<schedule::Table> MakeScheduleTable(const ScheduleRequest& request,
                                                 Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PLAN_STAGE_SCHEDULE_H_
