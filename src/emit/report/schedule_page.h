// Draws the timeline of a pipeline's schedule as a page.
#ifndef SHARDC_EMIT_REPORT_SCHEDULE_PAGE_H_
#define SHARDC_EMIT_REPORT_SCHEDULE_PAGE_H_

#include <cstddef>

#include "emit/report/page.h"
#include "emit/schedules/schedule_report.h"
#include "source/sink.h"

namespace shardc::report {

// The largest number of tasks that a page draws.
inline constexpr size_t kMostDrawnTasks = 20'000;

// Returns the number of tasks that a drawing of the schedule has. Two
// overlapped tasks are drawn as one.
size_t DrawnTasks(const ScheduleReport& report);
// Draws the tasks of each rank over time, with the bubbles between them, and a
// table of the ranks. The schedule must have at most kMostDrawnTasks tasks.
void WriteSchedulePage(const ScheduleReport& report, Sink& out);

// These functions write parts of the page of a schedule. They are also used for
// the page of a plan with pipeline stages. WriteTimeline() draws the tasks and
// states how long the step and its bubbles are. WriteRankTable() writes the
// table of the ranks.
void WriteTimeline(const ScheduleReport& report, Html& html);
void WriteRankTable(const ScheduleReport& report, Html& html);

}  // namespace shardc::report

#endif  // SHARDC_EMIT_REPORT_SCHEDULE_PAGE_H_
