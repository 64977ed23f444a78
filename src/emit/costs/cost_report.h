// A cost report: for the terminal and for programs (`shardc.cost/v1`); and the
// accelerators' figures.
#ifndef SHARDC_EMIT_COSTS_COST_REPORT_H_
#define SHARDC_EMIT_COSTS_COST_REPORT_H_

#include <string>

#include "cost/report.h"
#include "source/sink.h"

namespace shardc {

struct CostText {
  bool explain = false;  // with the assumptions and the tensors of a layer
};

std::string CostReportText(const cost::Report& report, const CostText& how);
void WriteCostJson(const cost::Report& report, Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_COSTS_COST_REPORT_H_
