// Draws, for each set of axes over which a step has collectives, the devices
// with which device 0 exchanges bytes.
#ifndef SHARDC_EMIT_REPORT_TRAFFIC_H_
#define SHARDC_EMIT_REPORT_TRAFFIC_H_

#include "emit/report/page.h"

namespace shardc::report {

// Writes one row for each set of axes. Writes nothing if a step sends no bytes.
void WriteDestinations(Page& page, const cost::Report& report);

}  // namespace shardc::report

#endif  // SHARDC_EMIT_REPORT_TRAFFIC_H_
