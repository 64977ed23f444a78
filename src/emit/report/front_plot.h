// Draws the shardings that a search found as points: memory on the horizontal
// axis, time on the vertical axis.
#ifndef SHARDC_EMIT_REPORT_FRONT_PLOT_H_
#define SHARDC_EMIT_REPORT_FRONT_PLOT_H_

#include "emit/costs/search_report.h"
#include "emit/report/html.h"

namespace shardc::report {

// Draws the Pareto front of time and memory, the winner, the runner-up and the
// knee, with a legend. The knee is the point after which saving memory costs
// the most time per byte. `found` must have a winner.
void DrawFront(const search::Found& found, Html& html);

}  // namespace shardc::report

#endif  // SHARDC_EMIT_REPORT_FRONT_PLOT_H_
