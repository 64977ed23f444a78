// `shardc schedule NAME|FILE`: makes or reads a pipeline schedule, proves it,
// and prints its step, bubbles, activations and channels.
#include <charconv>
#include <cmath>
#include <memory>
#include <utility>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/picture_flags.h"
#include "emit/schedules/schedule_report.h"
#include "emit/schedules/timeline_text.h"
#include "schedule/csv.h"
#include "source/file.h"
#include "source/stage_code.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

using schedule::Extent;
using schedule::Schedule;
using schedule::Table;
using schedule::Times;

constexpr int64_t kMostSize = 1 << 20;
constexpr std::string_view kExposed = "exposed";

struct ScheduleFlags {
  std::string name, ranks, virtual_stages, microbatches, times, hop, overlap;
  std::string p2p = "overlapped", output;
  bool csv = false, picture = false;
  PictureFlags drawing;
};

// Reads a number of at least 1; `fallback` if the flag is not given.
std::optional<int32_t> SizeOf(std::string_view flag, const std::string& text,
                              int32_t fallback, Findings& findings) {
  if (text.empty()) return fallback;
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

// Reads a time or a factor: finite and at least 0.
std::optional<double> RealOf(std::string_view flag, const std::string& text,
                             std::string_view part, Findings& findings) {
  double value = 0;
  const char* end = part.data() + part.size();
  const auto [stop, error] = std::from_chars(part.data(), end, value);
  if (error == std::errc() && stop == end && std::isfinite(value) &&
      value >= 0 && !std::signbit(value)) {
    return value;
  }
  findings.Add(code::kNumber, FlagPlace(flag, text),
               ShortQuote(part) + " is not a number from 0 on");
  return std::nullopt;
}

// Sets the times of all stages by the flags; false after a finding.
bool ReadTimes(const ScheduleFlags& flags, Times& times, Findings& findings) {
  if (!flags.times.empty()) {
    std::vector<double> parts;
    for (const std::string& part : SplitList({flags.times})) {
      const auto value = RealOf("--times", flags.times, part, findings);
      if (!value) return false;
      parts.push_back(*value);
    }
    if (parts.size() != 3) {
      findings.Add(code::kUsage, FlagPlace("--times", flags.times),
                   "`--times` has " +
                       Counted(static_cast<int64_t>(parts.size()), "number") +
                       ", not three",
                   "write the times of a forward task, of the gradients of "
                   "inputs and of those of weights, such as `--times 1,1,0.8`");
      return false;
    }
    for (auto& stage : times.stages) stage = {parts[0], parts[1], parts[2]};
  }
  if (!flags.hop.empty()) {
    const auto hop = RealOf("--hop", flags.hop, flags.hop, findings);
    if (!hop) return false;
    times.hop_forward.assign(times.stages.size(), *hop);
    times.hop_back = times.hop_forward;
  }
  if (!flags.overlap.empty()) {
    const auto factor =
        RealOf("--overlap", flags.overlap, flags.overlap, findings);
    if (!factor) return false;
    times.overlap = *factor;
  }
  times.exposed = flags.p2p == kExposed;
  return true;
}

// A name without a path's characters is a schedule's.
bool IsFile(const std::string& name) {
  return name.find_first_of("./\\") != std::string::npos;
}

std::optional<Table> ReadFile(const ScheduleFlags& flags, Findings& findings) {
  schedule::Expected expected;
  const auto ranks = SizeOf("--ranks", flags.ranks, 0, findings);
  const auto micros = SizeOf("--microbatches", flags.microbatches, 0, findings);
  if (!ranks || !micros) return std::nullopt;
  if (!flags.virtual_stages.empty()) {
    findings.Add(code::kUsage, FlagPlace("--virtual", flags.virtual_stages),
                 "`--virtual` is for schedules by name: the rows of a file "
                 "say which stages a rank has",
                 "leave out `--virtual`");
    return std::nullopt;
  }
  expected.ranks = *ranks;
  expected.microbatches = *micros;
  const SourceRef source = ReadSource(flags.name, findings);
  if (source == nullptr) return std::nullopt;
  return schedule::ReadCsv(source, expected, findings);
}

void AddRefusal(const Schedule& schedule, const Extent& extent,
                const ScheduleFlags& flags, const std::string& why,
                Findings& findings) {
  std::string help;
  Extent tried = extent;
  if (schedule.fixed_virtual &&
      extent.virtual_stages != schedule.virtual_stages) {
    help = "write `--virtual " + std::to_string(schedule.virtual_stages) + "`";
    tried.virtual_stages = schedule.virtual_stages;
  } else if (const auto nearest = NearestMicrobatches(schedule, tried)) {
    help = "write `--microbatches " + std::to_string(*nearest) + "`";
  } else {
    help =
        "take another number of ranks, or another schedule: `shardc "
        "schedule` lists them";
  }
  findings.Add(code::kScheduleRefuses, FlagPlace("NAME", flags.name), why,
               help);
}

std::optional<Table> MakeByName(const ScheduleFlags& flags,
                                Findings& findings) {
  const Schedule* schedule = schedule::FindSchedule(flags.name);
  if (schedule == nullptr) {
    std::vector<std::string_view> names;
    for (const Schedule& one : schedule::Schedules()) names.push_back(one.name);
    findings.Add(code::kUsage, FlagPlace("NAME", flags.name),
                 "there is no schedule " + ShortQuote(flags.name),
                 DidYouMean(flags.name, names,
                            "`shardc schedule` lists the schedules; the name "
                            "of a file has a `.` or a `/`"));
    return std::nullopt;
  }
  for (const auto& [flag, text] :
       {std::pair{"--ranks", &flags.ranks},
        std::pair{"--microbatches", &flags.microbatches}}) {
    if (!text->empty()) continue;
    findings.Add(code::kUsage, {}, "`" + std::string(flag) + "` is missing",
                 "write `shardc schedule " + flags.name +
                     " --ranks 4 --microbatches 8`");
    return std::nullopt;
  }
  const auto ranks = SizeOf("--ranks", flags.ranks, 0, findings);
  const auto micros = SizeOf("--microbatches", flags.microbatches, 0, findings);
  const auto chunks = SizeOf("--virtual", flags.virtual_stages,
                             schedule->virtual_stages, findings);
  if (!ranks || !micros || !chunks) return std::nullopt;
  const Extent extent{*ranks, *chunks, *micros};
  if (const int64_t tasks = schedule::TaskCount(extent);
      tasks > schedule::kMostTasks) {
    findings.Add(code::kLimit, FlagPlace("NAME", flags.name),
                 "the schedule has " + CountText(tasks) + " tasks, more than " +
                     CountText(schedule::kMostTasks),
                 "give fewer micro-batches, ranks or virtual stages");
    return std::nullopt;
  }
  if (const auto why = Refusal(*schedule, extent)) {
    AddRefusal(*schedule, extent, flags, *why, findings);
    return std::nullopt;
  }
  return schedule::MakeTable(*schedule, extent);
}

// 1 for a schedule that was understood and is refused, else 2.
int StatusOf(const Findings& findings) {
  for (const Finding& finding : findings.all()) {
    if (finding.code != &code::kScheduleRefuses &&
        finding.code != &code::kScheduleUnsafe) {
      return kFailed;
    }
  }
  return kFound;
}

int ListSchedules(const ScheduleFlags& flags, const Common& common,
                  Findings& findings) {
  const auto write = [&](Sink& out) {
    if (common.format == "json") {
      WriteScheduleListJson(out);
    } else {
      out.Append(ScheduleListText());
    }
  };
  return PutResult(write, flags.output, findings) ? kDone : kFailed;
}

int RunSchedule(const ScheduleFlags& flags, const Common& common,
                Findings& findings) {
  if (flags.name.empty()) return ListSchedules(flags, common, findings);
  if (flags.csv && (flags.picture || common.format == "json")) {
    findings.Add(
        code::kUsage, {},
        "`--csv` and `" +
            std::string(flags.picture ? "--picture" : "--format json") +
            "` are two formats of one result",
        "leave out one of them");
    return kFailed;
  }
  auto table = IsFile(flags.name) ? ReadFile(flags, findings)
                                  : MakeByName(flags, findings);
  if (!table) return StatusOf(findings);
  Times times;
  times.stages.resize(static_cast<size_t>(table->stages));
  const auto style = StyleOf(flags.drawing, common, findings);
  if (!ReadTimes(flags, times, findings) || !style) return kFailed;
  std::string text;
  if (flags.csv) {
    text = schedule::CsvText(*table);
  } else if (flags.picture && common.format != "json") {
    const auto drawn =
        TimelineText(*table, schedule::Simulate(*table, times), *style);
    if (!drawn) {
      findings.Add(code::kLimit, FlagPlace("NAME", flags.name),
                   "the picture of this schedule is too large",
                   "give fewer micro-batches, or times that differ less");
      return kFailed;
    }
    text = *drawn;
  } else {
    const ScheduleReport report = MakeScheduleReport(std::move(*table), times);
    const auto write = [&](Sink& out) {
      if (common.format == "json") {
        WriteScheduleJson(report, out);
      } else {
        out.Append(ScheduleReportText(report));
      }
    };
    return PutResult(write, flags.output, findings) ? kDone : kFailed;
  }
  return PutResult(text, flags.output, findings) ? kDone : kFailed;
}

Strings ScheduleNames() {
  Strings out;
  for (const Schedule& one : schedule::Schedules()) out.emplace_back(one.name);
  return out;
}

Options OptionsOf(ScheduleFlags& flags) {
  Options options = {
      {.name = "NAME|FILE",
       .to = &flags.name,
       .help = "a schedule, or a file in PyTorch's CSV (default: list the "
               "schedules)",
       .words = ScheduleNames()},
      {.name = "--ranks",
       .to = &flags.ranks,
       .value = "N",
       .help = "size of the pipeline's axis"},
      {.name = "--virtual",
       .to = &flags.virtual_stages,
       .value = "N",
       .help = "stages on each rank (default: 1, or 2 where the schedule has "
               "several)"},
      {.name = "--microbatches",
       .to = &flags.microbatches,
       .value = "N",
       .help = "parts of the batch"},
      {.name = "--times",
       .to = &flags.times,
       .value = "F,I,W",
       .help = "times of a forward task, of gradients of inputs and of "
               "gradients of weights (default: 1,1,1)"},
      {.name = "--hop",
       .to = &flags.hop,
       .value = "TIME",
       .help = "time of a message to another rank (default: 0)"},
      {.name = "--p2p",
       .to = &flags.p2p,
       .value = "overlapped|exposed",
       .help = "whether a rank computes while it sends (default: overlapped)",
       .checked = true},
      {.name = "--overlap",
       .to = &flags.overlap,
       .value = "FACTOR",
       .help = "time of an overlapped pair, as a part of the sum of its tasks "
               "(default: 1)"},
      {.name = "--csv",
       .to = &flags.csv,
       .help = "write the table as PyTorch's CSV"},
      {.name = "--picture", .to = &flags.picture, .help = "draw the timeline"},
      OutputOption(&flags.output)};
  Append(options, OptionsOf(flags.drawing));
  return options;
}

}  // namespace

const Command kSchedule = {
    .name = "schedule",
    .summary = "make, prove and draw a pipeline schedule",
    .about = R"(
Makes the table of a pipeline schedule, or reads one from a file in the CSV of
`torch.distributed.pipelining`: a row for each rank, with its tasks in order. A
task such as `3F0` is the forward pass of micro-batch 0 through stage 3; `3B0`
computes its gradients, or `3I0` those of the stage's input and later `3W0`
those of its weights.

Proves that every task runs once, on the rank that has its stage and after what
it reads, and that no ranks wait for each other. Prints the time of a step by
running the table, and two bubbles: `step` is until the last rank ends, and
counts if the optimizer waits for all ranks; `longest rank` is from a rank's own
first task to its last. Prints what each rank holds at most, and how many
messages the channels between ranks must hold so that no rank waits for ever:
with receives where the sender's turn puts them, as PyTorch does, or before the
task that reads them.

Exits with 1 if the schedule refuses these sizes (SHD248) or a file's table is
unsafe (SHD249), with the line and column. `--format json` is
shardc.schedule/v1.)",
    .example = "shardc schedule zb-h1 --ranks 4 --microbatches 8 --picture",
    .formats = "text|json",
    .declare = [] { return Declare(OptionsOf, RunSchedule); },
};

}  // namespace shardc::cli
