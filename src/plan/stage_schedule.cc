// Makes the table of a pipeline schedule. If the schedule does not allow the
// given numbers, the error suggests an allowed number of virtual stages or of
// micro-batches, if one exists. The suggestion is written as a flag, or as a
// key of the `stages:` section. For example, `interleaved` runs the
// micro-batches in rounds of equal size, which is impossible for 13 on 4 ranks:
//
//   interleaved on 4 ranks, 13 micro-batches  ->  write `microbatches: 12`
#include "plan/stage_schedule.h"

#include <string_view>
#include <utility>
#include <vector>

#include "schedule/csv.h"
#include "schedule/schedules.h"
#include "source/file.h"
#include "source/stage_code.h"
#include "source/wording.h"

namespace shardc {
namespace {

using schedule::Extent;
using schedule::Schedule;
using schedule::Table;

class TableMaker {
 public:
  TableMaker(const ScheduleRequest& request, Findings& findings)
      : request_(request), findings_(findings) {}

  std::optional<Table> Make() {
    return request_.is_file ? ReadFile() : MakeByName();
  }

 private:
  // Returns a setting as the user writes it: "--virtual 2" as a flag, or
  // "virtual: 2" in a file.
  std::string Written(std::string_view name, int64_t value) const {
    return request_.declared
               ? "`" + std::string(name) + ": " + std::to_string(value) + "`"
               : "`--" + std::string(name) + " " + std::to_string(value) + "`";
  }

  std::string Name(std::string_view name) const {
    return std::string(request_.declared ? "`" : "`--") + std::string(name) +
           "`";
  }

  std::optional<Table> ReadFile() {
    if (request_.virtual_stages) {
      findings_.Add(code::kUsage, request_.virtual_place,
                    Name("virtual") +
                        " is for schedules by name: the rows of a file say "
                        "which stages a rank has",
                    "leave out " + Name("virtual"));
      return std::nullopt;
    }
    Findings own;
    const SourceRef source = ReadSource(request_.name, own);
    findings_.NoteReadsOf(own);
    for (Finding finding : own.all()) {
      // A schedule's file that cannot be read is reported at the line of the
      // `stages:` section that names the file.
      if (source == nullptr && request_.declared) {
        finding.place = request_.place;
        finding.help = "paths are relative to the file that holds them";
      }
      findings_.Add(std::move(finding));
    }
    if (source == nullptr) return std::nullopt;
    return schedule::ReadCsv(
        source, {request_.ranks.value_or(0), request_.microbatches.value_or(0)},
        findings_);
  }

  void AddRefusal(const Schedule& schedule, const Extent& extent,
                  const std::string& why) {
    std::string help;
    if (schedule.fixed_virtual &&
        extent.virtual_stages != schedule.virtual_stages) {
      help = "write " + Written("virtual", schedule.virtual_stages);
    } else if (const auto nearest = NearestMicrobatches(schedule, extent)) {
      help = "write " + Written("microbatches", *nearest);
    } else {
      help =
          "take another number of ranks, or another schedule: `shardc "
          "schedule` lists them";
    }
    findings_.Add(code::kScheduleRefuses, request_.place, why, help);
  }

  const Schedule* Find() {
    const Schedule* schedule = schedule::FindSchedule(request_.name);
    if (schedule != nullptr) return schedule;
    std::vector<std::string_view> names;
    for (const Schedule& one : schedule::Schedules()) names.push_back(one.name);
    findings_.Add(request_.declared ? code::kUnknownName : code::kUsage,
                  request_.place,
                  "there is no schedule " + ShortQuote(request_.name),
                  DidYouMean(request_.name, names,
                             request_.declared
                                 ? "`shardc schedule` lists the schedules; a "
                                   "file is written `{file: schedule.csv}`"
                                 : "`shardc schedule` lists the schedules; the "
                                   "name of a file has a `.` or a `/`"));
    return nullptr;
  }

  std::optional<Table> MakeByName() {
    const Schedule* schedule = Find();
    if (schedule == nullptr) return std::nullopt;
    const int32_t ranks = request_.ranks.value_or(1);
    Extent extent{ranks,
                  request_.virtual_stages.value_or(schedule->virtual_stages),
                  request_.microbatches.value_or(1)};
    if (!request_.microbatches) {
      // Two micro-batches for each rank. The number of ranks is limited, so the
      // product does not overflow.
      extent.microbatches = 2 * ranks;
      if (!TooLarge(extent) && Refusal(*schedule, extent)) {
        extent.microbatches = NearestMicrobatches(*schedule, extent)
                                  .value_or(extent.microbatches);
      }
    }
    if (TooLarge(extent)) {
      findings_.Add(code::kLimit, request_.place,
                    "the schedule has " + CountText(TaskCount(extent)) +
                        " tasks, more than " + CountText(schedule::kMostTasks),
                    "give fewer micro-batches, ranks or virtual stages");
      return std::nullopt;
    }
    if (const auto why = Refusal(*schedule, extent)) {
      AddRefusal(*schedule, extent, *why);
      return std::nullopt;
    }
    return schedule::MakeTable(*schedule, extent);
  }

  static bool TooLarge(const Extent& extent) {
    return schedule::TaskCount(extent) > schedule::kMostTasks;
  }

  const ScheduleRequest& request_;
  Findings& findings_;
};

}  // namespace

std::optional<Table> MakeScheduleTable(const ScheduleRequest& request,
                                       Findings& findings) {
  return TableMaker(request, findings).Make();
}

}  // namespace shardc
