// Directory: emit/costs. Writes costs, the meshes that fit, pipelines,
// searches, device profiles and calibrations.
// Its files include headers of these directories: source, model, devices, cost,
// search, emit.
//
// Writes a cost report as text and as JSON (`shardc.cost/v1`).
#ifndef SHARDC_EMIT_COSTS_COST_REPORT_H_
#define SHARDC_EMIT_COSTS_COST_REPORT_H_

#include <string>

#include "cost/report.h"
#include "source/sink.h"

namespace shardc {

struct CostText {
  // True if the assumptions and the tensors of one layer are printed as well.
  bool explain = false;
};

std::string CostReportText(const cost::Report& report, const CostText& how);
void WriteCostJson(const cost::Report& report, Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_COSTS_COST_REPORT_H_
