// Which meshes fit: for the terminal and for programs (`shardc.fit/v1`).
#ifndef SHARDC_EMIT_COSTS_FIT_REPORT_H_
#define SHARDC_EMIT_COSTS_FIT_REPORT_H_

#include <cstdint>
#include <string>

#include "cost/fit.h"
#include "source/sink.h"

namespace shardc {

// Of the meshes at most `most` are shown, and with `all` those that are not
// legal too.
std::string FitReportText(const cost::FitReport& report, int64_t most,
                          bool all);
void WriteFitJson(const cost::FitReport& report, Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_COSTS_FIT_REPORT_H_
