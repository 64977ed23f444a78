// Writes which meshes fit, as text and as JSON (`shardc.fit/v1`).
#ifndef SHARDC_EMIT_COSTS_FIT_REPORT_H_
#define SHARDC_EMIT_COSTS_FIT_REPORT_H_

#include <cstdint>
#include <string>

#include "cost/fit.h"
#include "source/sink.h"

namespace shardc {

// Returns the report as text. It lists the first `most` meshes that fit or may
// fit. If `all` is true, it lists the first `most` of all meshes.
std::string FitReportText(const cost::FitReport& report, int64_t most,
                          bool all);
void WriteFitJson(const cost::FitReport& report, Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_COSTS_FIT_REPORT_H_
