// Makes or reads the table of a pipeline schedule. A flag or an argument gives
// the name of a built-in schedule, or the path of a file.
#ifndef SHARDC_CLI_SCHEDULE_TABLE_H_
#define SHARDC_CLI_SCHEDULE_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cli/command.h"
#include "schedule/table.h"
#include "source/finding.h"

namespace shardc::cli {

struct ScheduleChoice {
  // The name of a built-in schedule, or a path if IsScheduleFile(name) is true.
  std::string name;
  // The option or the argument that gave `name`, for messages.
  std::string_view flag;
  std::optional<int32_t> ranks = {}, virtual_stages = {}, microbatches = {};
};

// Parses a size of a schedule, from 1 to 2^20. Returns nullopt if the text is
// empty, or after a finding.
std::optional<int32_t> ScheduleSize(std::string_view flag,
                                    const std::string& text,
                                    Findings& findings);

// Returns whether `name` is the path of a file, because it contains `/`, `\` or
// `.`. Otherwise it is the name of a built-in schedule.
bool IsScheduleFile(const std::string& name);

// Makes the table of a built-in schedule, or reads the table of a file. Returns
// nullopt after a finding (usage, limit, schedule-refuses, or an error in
// reading a file).
std::optional<schedule::Table> ScheduleTable(const ScheduleChoice& choice,
                                             Findings& findings);

// Returns the exit status after findings about stages: 1 if the options are
// valid but the stages that they describe are refused, else 2.
int StageStatus(const Findings& findings);

// Returns the names of the built-in schedules, for shell completion.
Strings ScheduleNames();

}  // namespace shardc::cli

#endif  // SHARDC_CLI_SCHEDULE_TABLE_H_
