// Room: emit/schedules. Writes pipeline schedules: their step, bubbles,
// activations and channels.
// Includes: source, schedule, emit/pictures.
#ifndef SHARDC_EMIT_SCHEDULES_SCHEDULE_REPORT_H_
#define SHARDC_EMIT_SCHEDULES_SCHEDULE_REPORT_H_

#include <optional>
#include <string>
#include <vector>

#include "schedule/channels.h"
#include "schedule/schedules.h"
#include "schedule/simulate.h"
#include "source/sink.h"

namespace shardc {

// The capacity that the channels of `scope` need if receives are placed as
// `receives` states.
struct ChannelNeed {
  schedule::Receives receives = schedule::Receives::kInSendOrder;
  schedule::ChannelScope scope = schedule::ChannelScope::kPair;
  std::optional<int64_t> capacity;  // messages; nullopt: none is enough
  std::string reason;               // why no capacity is enough
};

struct ScheduleReport {
  schedule::Table table;
  schedule::Times times;
  schedule::Timeline timeline;
  // For each rank, the largest number of micro-batches whose activations it
  // holds at the same time; a micro-batch counts once for each of its stages.
  std::vector<int64_t> held;
  std::vector<ChannelNeed> channels;
};

// Simulates the table and finds the capacities of its channels. The order of
// its tasks must have been proven by CheckOrder.
ScheduleReport MakeScheduleReport(schedule::Table table,
                                  const schedule::Times& times);

std::string ScheduleReportText(const ScheduleReport& report);
// Writes shardc.schedule/v1.
void WriteScheduleJson(const ScheduleReport& report, Sink& out);

// Returns the names of the schedules, one per line, with a description.
std::string ScheduleListText();
void WriteScheduleListJson(Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_SCHEDULES_SCHEDULE_REPORT_H_
