// `shardc schedule NAME|FILE`: makes or reads a pipeline schedule, and proves
// that its ranks never wait for each other in a cycle. Prints the time of a
// step, the bubbles, the activations that each rank holds, and the messages in
// the channels between ranks.
#include <charconv>
#include <cmath>
#include <memory>
#include <utility>

#include "cli/commands.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/pictured.h"
#include "emit/report/page.h"
#include "emit/schedules/schedule_report.h"
#include "model/option_value.h"
#include "schedule/table.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

using schedule::Times;

constexpr std::string_view kExposed = "exposed";

struct ScheduleFlags {
  std::string name, ranks, virtual_stages, microbatches, times, hop, overlap;
  std::string p2p = "overlapped", output;
  bool csv = false, picture = false;
  PictureFlags drawing;
};

// The largest accepted time or factor. The sum of the times of all tasks is
// then finite.
constexpr double kMostTime = 1e100;

// Parses a time or a factor from 0 to kMostTime. Returns nullopt after a
// finding.
std::optional<double> RealOf(std::string_view flag, const std::string& text,
                             std::string_view part, Findings& findings) {
  double value = 0;
  const char* end = part.data() + part.size();
  const auto [stop, error] = std::from_chars(part.data(), end, value);
  const bool number = error == std::errc() && stop == end &&
                      std::isfinite(value) && value >= 0 &&
                      !std::signbit(value);
  if (number && value <= kMostTime) return value;
  findings.Add(code::kNumber, FlagPlace(flag, text),
               ShortQuote(part) + (number ? " is more than 1e100"
                                          : " is not a number from 0 on"));
  return std::nullopt;
}

// Sets the times of all stages to those of the flags. Returns false after a
// finding.
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

bool ReadSizes(const ScheduleFlags& flags, ScheduleChoice& out,
               Findings& findings) {
  const size_t before = findings.errors();
  out.ranks = ScheduleSize("--ranks", flags.ranks, findings);
  out.virtual_stages =
      ScheduleSize("--virtual", flags.virtual_stages, findings);
  out.microbatches =
      ScheduleSize("--microbatches", flags.microbatches, findings);
  return findings.errors() == before;
}

int ListSchedules(const ScheduleFlags& flags, const Common& common,
                  Findings& findings) {
  if (common.format == "html") {
    findings.Add(code::kUsage, {},
                 "`--format html` draws one schedule, and none is named",
                 "write `shardc schedule 1f1b --ranks 4 --microbatches 8 "
                 "--format html`");
    return kFailed;
  }
  const auto write = [&](Sink& out) {
    if (common.format == "json") {
      WriteScheduleListJson(out);
    } else {
      out.Append(ScheduleListText());
    }
  };
  return PutResult(write, flags.output, findings) ? kDone : kFailed;
}

// Returns false and adds a finding if the output is an HTML page and the
// schedule has more tasks than a page draws.
bool CanDraw(const ScheduleReport& report, const ScheduleFlags& flags,
             const Common& common, Findings& findings) {
  const size_t tasks = report::DrawnTasks(report);
  if (common.format != "html" || tasks <= report::kMostDrawnTasks) return true;
  findings.Add(code::kLimit, FlagPlace("NAME", flags.name),
               "the schedule has " + CountText(static_cast<int64_t>(tasks)) +
                   " tasks, and a page draws " +
                   CountText(int64_t{report::kMostDrawnTasks}) + " at most",
               "give fewer micro-batches, ranks or virtual stages");
  return false;
}

int RunSchedule(const ScheduleFlags& flags, const Common& common,
                Findings& findings) {
  if (flags.name.empty()) return ListSchedules(flags, common, findings);
  if (flags.csv && (flags.picture || common.format != "text")) {
    findings.Add(
        code::kUsage, {},
        "`--csv` and `" +
            (flags.picture ? "--picture" : "--format " + common.format) +
            "` are two formats of one result",
        "leave out one of them");
    return kFailed;
  }
  ScheduleChoice choice{flags.name, "NAME"};
  if (!ReadSizes(flags, choice, findings)) return kFailed;
  auto table = ScheduleTable(choice, findings);
  if (!table) return StageStatus(findings);
  Times times;
  times.stages.resize(static_cast<size_t>(table->stages));
  const auto style = StyleOf(flags.drawing, common, findings);
  if (!ReadTimes(flags, times, findings) || !style) return kFailed;
  std::string text;
  if (flags.csv) {
    text = schedule::CsvText(*table);
  } else if (flags.picture && common.format == "text") {
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
    if (!CanDraw(report, flags, common, findings)) return kFailed;
    const auto write = [&](Sink& out) {
      if (common.format == "json") {
        WriteScheduleJson(report, out);
      } else if (common.format == "html") {
        report::WriteSchedulePage(report, out);
      } else {
        out.Append(ScheduleReportText(report));
      }
    };
    return PutResult(write, flags.output, findings) ? kDone : kFailed;
  }
  return PutResult(text, flags.output, findings) ? kDone : kFailed;
}

Options OptionsOf(ScheduleFlags& flags) {
  Options options = {
      {.name = "NAME|FILE",
       .to = &flags.name,
       .help = "a schedule, or a file in PyTorch's CSV (default: list the "
               "schedules)",
       .words = ScheduleNames},
      {.name = "--ranks",
       .need = HelpNeed::kOften,
       .to = &flags.ranks,
       .value = "N",
       .help = "size of the pipeline's axis"},
      {.name = "--virtual",
       .need = HelpNeed::kOften,
       .to = &flags.virtual_stages,
       .value = "N",
       .help = "stages on each rank (default: 1, or 2 where the schedule has "
               "several)"},
      {.name = "--microbatches",
       .need = HelpNeed::kOften,
       .to = &flags.microbatches,
       .value = "N",
       .help = "parts of the batch"},
      {.name = "--times",
       .need = HelpNeed::kOften,
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
       .need = HelpNeed::kOften,
       .to = &flags.csv,
       .help = "write the table as PyTorch's CSV"},
      {.name = "--picture",
       .need = HelpNeed::kOften,
       .to = &flags.picture,
       .help = "draw the timeline"},
      OutputOption(&flags.output)};
  Append(options, OptionsOf(flags.drawing));
  return options;
}

}  // namespace

Declared DeclareSchedule() { return Declare(OptionsOf, RunSchedule); }

}  // namespace shardc::cli
