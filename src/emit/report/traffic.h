// Draws between which devices a step sends its bytes, by the axes of the
// collectives.
#ifndef SHARDC_EMIT_REPORT_TRAFFIC_H_
#define SHARDC_EMIT_REPORT_TRAFFIC_H_

#include "emit/report/page.h"

namespace shardc::report {

// Writes one row for each set of axes; nothing if nothing is sent.
void WriteDestinations(Page& page, const cost::Report& report);

}  // namespace shardc::report

#endif  // SHARDC_EMIT_REPORT_TRAFFIC_H_
