// Makes or reads the table of a schedule. An argument that contains none of
// `/`, `\` and `.` is the name of a built-in schedule:
//
//   zbv  ->  made for the sizes;  zbv.csv, ./zbv  ->  read from the file
#include "cli/schedule_table.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/output.h"
#include "plan/stage_units.h"
#include "schedule/schedules.h"
#include "source/finding.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

constexpr int64_t kMostSize = 1 << 20;

}  // namespace

bool IsScheduleFile(const std::string& name) {
  return name.find_first_of("./\\") != std::string::npos;
}

std::optional<int32_t> ScheduleSize(std::string_view flag,
                                    const std::string& text,
                                    Findings& findings) {
  if (text.empty()) return std::nullopt;
  const auto value = ParseInteger(flag, text, 1, findings);
  if (!value) return std::nullopt;
  if (*value > kMostSize) {
    findings.Add(
        code::kLimit, FlagPlace(flag, text),
        "`" + std::string(flag) + "` is more than " + CountText(kMostSize));
    return std::nullopt;
  }
  return static_cast<int32_t>(*value);
}

std::optional<schedule::Table> ScheduleTable(const ScheduleChoice& choice,
                                             Findings& findings) {
  const bool file = IsScheduleFile(choice.name);
  const bool known = !file && schedule::FindSchedule(choice.name) != nullptr;
  for (const auto& [flag, size] :
       {std::pair{"--ranks", choice.ranks},
        std::pair{"--microbatches", choice.microbatches}}) {
    if (size || !known) continue;
    findings.Add(code::kUsage, {}, "`" + std::string(flag) + "` is missing",
                 choice.flag == "NAME"
                     ? "write `shardc schedule " + choice.name +
                           " --ranks 4 --microbatches 8`"
                     : "add `" + std::string(flag) + " 8`");
    return std::nullopt;
  }
  ScheduleRequest request{choice.name,
                          file,
                          choice.ranks,
                          choice.virtual_stages,
                          choice.microbatches,
                          FlagPlace(choice.flag, choice.name),
                          {},
                          false};
  if (choice.virtual_stages) {
    request.virtual_place =
        FlagPlace("--virtual", std::to_string(*choice.virtual_stages));
  }
  return MakeScheduleTable(request, findings);
}

int StageStatus(const Findings& findings) {
  const auto codes = StageCodes();
  for (const Finding& finding : findings.all()) {
    if (finding.level == Level::kError &&
        std::find(codes.begin(), codes.end(), finding.code) == codes.end()) {
      return kFailed;
    }
  }
  return kFound;
}

Strings ScheduleNames() {
  Strings out;
  for (const schedule::Schedule& one : schedule::Schedules()) {
    out.emplace_back(one.name);
  }
  return out;
}

}  // namespace shardc::cli
