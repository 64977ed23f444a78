// Writes the report of a pipeline schedule. The report measures the bubble,
// which is the idle time of ranks, in two ways. `step` is the time from the
// start until the last rank ends. This is the relevant time if the optimizer
// waits for all ranks. `longest rank` is the largest time that a rank needs
// from its first task to its last. For example, for the schedule zb-h2 on 4
// ranks with 8 micro-batches:
//
//   step          27 ticks, 11.1 % of it bubble
//   longest rank  24 ticks, 0.0 % of it bubble
#include "emit/schedules/schedule_report.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "emit/emit.h"
#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc {
namespace {

using schedule::ChannelScope;
using schedule::Receives;

std::string NumberText(double value) {
  std::array<char, 64> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value,
                                 std::chars_format::general, 6);
  return {text.data(), end.ptr};
}

std::string PercentText(double part) {
  std::array<char, 64> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(),
                                 100 * part, std::chars_format::fixed, 1);
  return std::string(text.data(), end.ptr) + " %";
}

bool IsUnit(const schedule::Times& times) {
  for (const auto& stage : times.stages) {
    if (stage.forward != 1 || stage.input != 1 || stage.weight != 1) {
      return false;
    }
  }
  return times.hop_forward.empty() && times.overlap == 1;
}

std::string_view ReceivesName(Receives receives) {
  switch (receives) {
    case Receives::kInSendOrder:
      return "sender's turn";
    case Receives::kAtUse:
      return "at use";
    case Receives::kAtUseBatched:
      break;
  }
  return "at use, batched";
}

std::string_view ScopeName(ChannelScope scope) {
  return scope == ChannelScope::kPair ? "pair of ranks"
                                      : "pair of ranks and direction";
}

// Returns the stages of which each rank holds the parameters, in their order.
std::vector<std::vector<int32_t>> StagesByRank(const schedule::Table& table) {
  std::vector<std::vector<int32_t>> out(table.rows.size());
  for (int32_t stage = 0; stage < table.stages; ++stage) {
    for (int32_t micro = 0; micro < table.microbatches; ++micro) {
      auto& own = out[static_cast<size_t>(table.RankOf(stage, micro))];
      if (own.empty() || own.back() != stage) own.push_back(stage);
    }
  }
  return out;
}

// Returns the stages of a rank: "0 4". If the rank has more than eight stages,
// returns the first seven and the last: "0 4 8 12 16 20 24 .. 60".
std::string StagesText(const std::vector<int32_t>& stages) {
  std::string out;
  constexpr size_t kShown = 8;
  for (size_t i = 0; i < stages.size(); ++i) {
    if (i == kShown - 1 && stages.size() > kShown) {
      return out + " .. " + std::to_string(stages.back());
    }
    if (i > 0) out += ' ';
    out += std::to_string(stages[i]);
  }
  return out;
}

size_t TasksOf(const std::vector<schedule::Cell>& row) {
  size_t out = 0;
  for (const auto& cell : row) out += cell.overlapped ? 2 : 1;
  return out;
}

std::string RanksText(const ScheduleReport& report) {
  Columns table(Columns::Align::kRight);
  table.Row(
      {"rank", "stages", "tasks", "first", "last", "busy", "idle", "held"});
  const auto stages = StagesByRank(report.table);
  for (size_t rank = 0; rank < report.table.rows.size(); ++rank) {
    const schedule::RankTime& time = report.timeline.ranks[rank];
    const double idle =
        report.timeline.step > 0 ? 1 - time.busy / report.timeline.step : 0;
    table.Row({std::to_string(rank), StagesText(stages[rank]),
               std::to_string(TasksOf(report.table.rows[rank])),
               NumberText(time.first), NumberText(time.last),
               NumberText(time.busy), PercentText(std::max(0.0, idle)),
               std::to_string(report.held[rank])});
  }
  return table.Text();
}

std::string ChannelsText(const ScheduleReport& report) {
  std::string out;
  for (const ChannelNeed& need : report.channels) {
    std::string line = "  " + std::string(ReceivesName(need.receives));
    line.resize(20, ' ');
    line += std::string(ScopeName(need.scope));
    line.resize(50, ' ');
    line += need.capacity ? CountText(*need.capacity) : "none";
    out += line + "\n";
    if (!need.capacity) out += "    " + need.reason + "\n";
  }
  return out;
}

}  // namespace

ScheduleReport MakeScheduleReport(schedule::Table table,
                                  const schedule::Times& times) {
  ScheduleReport out;
  out.table = std::move(table);
  out.times = times;
  out.held = schedule::HeldByRank(out.table);
  for (const Receives receives :
       {Receives::kInSendOrder, Receives::kAtUse, Receives::kAtUseBatched}) {
    const schedule::Programs programs = schedule::Lower(out.table, receives);
    for (const ChannelScope scope :
         {ChannelScope::kPair, ChannelScope::kPairAndKind}) {
      ChannelNeed need{receives, scope, 0, {}};
      // What runs where activations and gradients share channels without room
      // also runs where each kind has channels of its own.
      const bool shared_needs_none = scope == ChannelScope::kPairAndKind &&
                                     out.channels.back().capacity == 0;
      if (!shared_needs_none) {
        need.capacity = schedule::LeastCapacity(programs, scope);
      }
      if (!need.capacity) {
        need.reason =
            schedule::RunChannels(programs, schedule::kUnbounded, scope).text;
      }
      out.channels.push_back(std::move(need));
    }
  }
  // The programs are as large as the timeline, and are no longer held.
  out.timeline = schedule::Simulate(out.table, out.times);
  return out;
}

std::string ScheduleReportText(const ScheduleReport& report) {
  const schedule::Table& table = report.table;
  const schedule::Timeline& timeline = report.timeline;
  const std::string unit = IsUnit(report.times) ? " ticks" : "";
  std::string out =
      Printable(table.name) + ": " + Counted(table.ranks(), "rank") + ", " +
      Counted(table.stages, "stage") + " placed as " +
      std::string(PlacementName(table.placement)) + ", " +
      Counted(table.microbatches, "micro-batch", "micro-batches") + "\n\n";
  const auto line = [&](std::string name, double length, double bubble) {
    name.resize(14, ' ');
    out += name + NumberText(length) + unit + ", " + PercentText(bubble) +
           " of it bubble\n";
  };
  line("step", timeline.step, timeline.StepBubble());
  line("longest rank", timeline.LongestRank(), timeline.RankBubble());
  out +=
      "\n" + RanksText(report) +
      "\nheld: the most chunks of a micro-batch whose activations a rank "
      "keeps\n\n"
      "Least messages that a channel must hold, by the place of receives:\n" +
      ChannelsText(report);
  return out;
}

void WriteScheduleJson(const ScheduleReport& report, Sink& out) {
  const schedule::Table& table = report.table;
  WriteDocument(out, "shardc.schedule/v1", [&](JsonWriter& json) {
    json.Members("schedule", table.name, "ranks", table.ranks(), "stages",
                 table.stages, "microbatches", table.microbatches, "placement",
                 PlacementName(table.placement), "step",
                 Record("time", report.timeline.step, "bubble",
                        report.timeline.StepBubble()),
                 "longest_rank",
                 Record("time", report.timeline.LongestRank(), "bubble",
                        report.timeline.RankBubble()));
    const auto stages = StagesByRank(table);
    json.Key("by_rank");
    json.BeginArray(JsonLayout::kLines);
    for (size_t rank = 0; rank < table.rows.size(); ++rank) {
      const schedule::RankTime& time = report.timeline.ranks[rank];
      json.Object("rank", static_cast<int64_t>(rank), "stages", stages[rank],
                  "tasks", TasksOf(table.rows[rank]), "first", time.first,
                  "last", time.last, "busy", time.busy, "held",
                  report.held[rank]);
    }
    json.EndArray();
    json.Rows("channels", report.channels, [&](const ChannelNeed& need) {
      json.Members("receives", ReceivesName(need.receives), "channel",
                   ScopeName(need.scope), "capacity", need.capacity);
      if (!need.capacity) json.Member("reason", need.reason);
    });
    json.Key("rows");
    json.BeginArray(JsonLayout::kLines);
    for (size_t rank = 0; rank < table.rows.size(); ++rank) {
      json.BeginArray();
      for (size_t i = 0; i < table.rows[rank].size(); ++i) {
        const schedule::Interval& time = report.timeline.cells[rank][i];
        json.Object("task", schedule::CellText(table.rows[rank][i]), "begin",
                    time.begin, "end", time.end);
      }
      json.EndArray();
    }
    json.EndArray();
  });
}

std::string ScheduleListText() {
  std::string out;
  for (const schedule::Schedule& one : schedule::Schedules()) {
    std::string line(one.name);
    line.resize(16, ' ');
    out += line + std::string(one.summary) + "\n";
  }
  return out;
}

void WriteScheduleListJson(Sink& out) {
  WriteDocument(out, "shardc.schedule/v1", [&](JsonWriter& json) {
    json.Rows("schedules", schedule::Schedules(),
              [&](const schedule::Schedule& one) {
                json.Members("name", one.name, "summary", one.summary,
                             "placement", PlacementName(one.placement),
                             "virtual", one.virtual_stages);
              });
  });
}

// Draws a schedule as text, with a line for each rank. Each tick of time has as
// many columns as the longest task name, and one space. If a task takes several
// ticks, dashes fill its further columns. A dot is an idle tick.
//
// For example, 1f1b on 2 ranks with 2 micro-batches. `1F0` is the forward pass
// (F) of stage 1 for micro-batch 0, and `1B0` is the backward pass, which takes
// two ticks:
//
//   rank 0 |0F0 0F1 .   .   0B0---- .   0B1----
//   rank 1 |.   1F0 1B0---- 1F1 1B1---- .   .

namespace {

using schedule::Cell;
using schedule::Table;
using schedule::Timeline;

// Returns the name of a task, or both names of two overlapped tasks: "0F3;3B1".
std::string NameOf(const Cell& cell) {
  std::string out = schedule::TaskText(cell.task);
  if (cell.overlapped) out += ";" + schedule::TaskText(*cell.overlapped);
  return out;
}

double ShortestTask(const Timeline& timeline) {
  double out = std::numeric_limits<double>::infinity();
  for (const auto& row : timeline.cells) {
    for (const auto& cell : row) {
      if (cell.end > cell.begin) out = std::min(out, cell.end - cell.begin);
    }
  }
  return out;
}

size_t LongestName(const Table& table) {
  size_t out = 1;
  for (const auto& row : table.rows) {
    for (const Cell& cell : row) {
      out = std::max(out, schedule::TaskText(cell.task).size());
    }
  }
  return out;
}

// Returns the line of a rank, with `width` characters per tick.
std::string RowText(const std::vector<Cell>& row,
                    const std::vector<schedule::Interval>& cells, double tick,
                    size_t ticks, size_t width) {
  std::string out;
  for (size_t i = 0; i < ticks; ++i) {
    out += '.';
    out.append(width - 1, ' ');
  }
  for (size_t i = 0; i < row.size(); ++i) {
    const auto begin =
        static_cast<size_t>(std::llround(cells[i].begin / tick)) * width;
    const auto end =
        static_cast<size_t>(std::llround(cells[i].end / tick)) * width;
    if (end <= begin || end > out.size()) continue;
    std::string text = NameOf(row[i]).substr(0, end - begin - 1);
    text.append(end - begin - 1 - text.size(), '-');
    // Dashes show the duration of a task of several ticks. A task of one tick
    // with a short name is padded with blanks.
    if (end - begin == width) {
      std::replace(text.begin(), text.end(), '-', ' ');
    }
    out.replace(begin, end - begin, text + " ");
  }
  return out;
}

}  // namespace

std::optional<std::string> TimelineText(const Table& table,
                                        const Timeline& timeline,
                                        const PictureStyle& style) {
  const double tick = ShortestTask(timeline);
  const size_t width = LongestName(table) + 1;
  const double ranks = static_cast<double>(table.rows.size());
  const double wanted = std::isinf(tick) ? 0 : timeline.step / tick + 1;
  if (wanted * static_cast<double>(width) * ranks > kMostPicture) {
    return std::nullopt;
  }
  const auto ticks = static_cast<size_t>(
      std::isinf(tick) ? 0 : std::llround(timeline.step / tick));
  std::vector<std::string> lines;
  for (size_t rank = 0; rank < table.rows.size(); ++rank) {
    lines.push_back(
        RowText(table.rows[rank], timeline.cells[rank], tick, ticks, width));
  }
  const size_t name = std::to_string(table.rows.size() - 1).size();
  const size_t head = std::string("rank  |").size() + name;
  const size_t room = static_cast<size_t>(style.width) > head + width
                          ? static_cast<size_t>(style.width) - head
                          : width;
  const size_t block = std::max<size_t>(1, room / width);
  std::string out;
  for (size_t first = 0; first < ticks; first += block) {
    const size_t last = std::min(ticks, first + block);
    if (ticks > block) {
      if (first > 0) out += "\n";
      out += "ticks " + std::to_string(first) + " to " +
             std::to_string(last - 1) + "\n";
    }
    for (size_t rank = 0; rank < lines.size(); ++rank) {
      const std::string number = std::to_string(rank);
      std::string line =
          "rank " + std::string(name - number.size(), ' ') + number + " |" +
          lines[rank].substr(first * width, (last - first) * width);
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + "\n";
    }
  }
  return out;
}

}  // namespace shardc
