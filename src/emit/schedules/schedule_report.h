// Directory: emit/schedules. Writes pipeline schedules: their step, bubbles,
// activations and channels.
// Its files include headers of these directories: source, schedule, emit,
// emit/pictures.
#ifndef SHARDC_EMIT_SCHEDULES_SCHEDULE_REPORT_H_
#define SHARDC_EMIT_SCHEDULES_SCHEDULE_REPORT_H_

#include <optional>
#include <string>
#include <vector>

#include "emit/pictures/line.h"
#include "schedule/channels.h"
#include "schedule/order.h"
#include "schedule/schedules.h"
#include "source/sink.h"

namespace shardc {

// The capacity that the channels between ranks need, for one kind of channels
// (`scope`) and one order in which ranks post receives (`receives`).
struct ChannelNeed {
  schedule::Receives receives = schedule::Receives::kInSendOrder;
  schedule::ChannelScope scope = schedule::ChannelScope::kPair;
  // The needed capacity in messages; nullopt if no capacity suffices.
  std::optional<int64_t> capacity;
  // Why no capacity suffices. Empty if `capacity` is given.
  std::string reason;
};

struct ScheduleReport {
  schedule::Table table;
  schedule::Times times;
  schedule::Timeline timeline;
  // For each rank, the largest number of micro-batches whose activations the
  // rank holds at the same time. A micro-batch is counted once for each stage
  // of the rank.
  std::vector<int64_t> held;
  std::vector<ChannelNeed> channels;
};

// Simulates the schedule's table and computes the capacities of its channels.
// CheckOrder must have proven before that the order of the tasks is valid.
ScheduleReport MakeScheduleReport(schedule::Table table,
                                  const schedule::Times& times);

std::string ScheduleReportText(const ScheduleReport& report);
// Writes shardc.schedule/v1.
void WriteScheduleJson(const ScheduleReport& report, Sink& out);

// Returns the names of the schedules, one per line, with a description.
std::string ScheduleListText();
void WriteScheduleListJson(Sink& out);

// Returns the drawing. A tick is as long as the shortest task, and a dot is an
// idle tick. If the ticks do not fit the width, the drawing continues in
// further blocks of lines. Returns nullopt if the drawing would have more than
// about kMostPicture characters.
std::optional<std::string> TimelineText(const schedule::Table& table,
                                        const schedule::Timeline& timeline,
                                        const PictureStyle& style);

inline constexpr double kMostPicture = 1 << 24;

}  // namespace shardc

#endif  // SHARDC_EMIT_SCHEDULES_SCHEDULE_REPORT_H_
