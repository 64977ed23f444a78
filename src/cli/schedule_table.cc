// Makes or reads the table of a schedule. An argument without `/` or `.` is the
// name of a built-in schedule:
//
//   zbv  ->  made for the sizes;  zbv.csv, ./zbv  ->  read from the file
#include "cli/schedule_table.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/output.h"
#include "schedule/csv.h"
#include "schedule/schedules.h"
#include "source/file.h"
#include "source/stage_code.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

using schedule::Extent;
using schedule::Schedule;
using schedule::Table;

constexpr int64_t kMostSize = 1 << 20;

bool IsFile(const std::string& name) {
  return name.find_first_of("./\\") != std::string::npos;
}

std::optional<Table> ReadTable(const ScheduleChoice& choice,
                               Findings& findings) {
  if (choice.virtual_stages) {
    findings.Add(code::kUsage,
                 FlagPlace("--virtual", std::to_string(*choice.virtual_stages)),
                 "`--virtual` is for schedules by name: the rows of a file "
                 "say which stages a rank has",
                 "leave out `--virtual`");
    return std::nullopt;
  }
  const SourceRef source = ReadSource(choice.name, findings);
  if (source == nullptr) return std::nullopt;
  return schedule::ReadCsv(
      source, {choice.ranks.value_or(0), choice.microbatches.value_or(0)},
      findings);
}

void AddRefusal(const Schedule& schedule, const Extent& extent,
                const ScheduleChoice& choice, const std::string& why,
                Findings& findings) {
  std::string help;
  if (schedule.fixed_virtual &&
      extent.virtual_stages != schedule.virtual_stages) {
    help = "write `--virtual " + std::to_string(schedule.virtual_stages) + "`";
  } else if (const auto nearest = NearestMicrobatches(schedule, extent)) {
    help = "write `--microbatches " + std::to_string(*nearest) + "`";
  } else {
    help =
        "take another number of ranks, or another schedule: `shardc "
        "schedule` lists them";
  }
  findings.Add(code::kScheduleRefuses, FlagPlace(choice.flag, choice.name), why,
               help);
}

std::optional<Table> MakeByName(const ScheduleChoice& choice,
                                Findings& findings) {
  const Schedule* schedule = schedule::FindSchedule(choice.name);
  if (schedule == nullptr) {
    std::vector<std::string_view> names;
    for (const Schedule& one : schedule::Schedules()) names.push_back(one.name);
    findings.Add(code::kUsage, FlagPlace(choice.flag, choice.name),
                 "there is no schedule " + ShortQuote(choice.name),
                 DidYouMean(choice.name, names,
                            "`shardc schedule` lists the schedules; the name "
                            "of a file has a `.` or a `/`"));
    return std::nullopt;
  }
  for (const auto& [flag, size] :
       {std::pair{"--ranks", choice.ranks},
        std::pair{"--microbatches", choice.microbatches}}) {
    if (size) continue;
    findings.Add(code::kUsage, {}, "`" + std::string(flag) + "` is missing",
                 "write `shardc schedule " + choice.name +
                     " --ranks 4 --microbatches 8`");
    return std::nullopt;
  }
  const Extent extent{*choice.ranks,
                      choice.virtual_stages.value_or(schedule->virtual_stages),
                      *choice.microbatches};
  if (const int64_t tasks = schedule::TaskCount(extent);
      tasks > schedule::kMostTasks) {
    findings.Add(code::kLimit, FlagPlace(choice.flag, choice.name),
                 "the schedule has " + CountText(tasks) + " tasks, more than " +
                     CountText(schedule::kMostTasks),
                 "give fewer micro-batches, ranks or virtual stages");
    return std::nullopt;
  }
  if (const auto why = Refusal(*schedule, extent)) {
    AddRefusal(*schedule, extent, choice, *why, findings);
    return std::nullopt;
  }
  return schedule::MakeTable(*schedule, extent);
}

}  // namespace

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

std::optional<Table> ScheduleTable(const ScheduleChoice& choice,
                                   Findings& findings) {
  return IsFile(choice.name) ? ReadTable(choice, findings)
                             : MakeByName(choice, findings);
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
  for (const Schedule& one : schedule::Schedules()) out.emplace_back(one.name);
  return out;
}

}  // namespace shardc::cli
