// Writes the results of `shardc verify` as text.
#ifndef SHARDC_EMIT_VERIFY_REPORT_TEXT_H_
#define SHARDC_EMIT_VERIFY_REPORT_TEXT_H_

#include <string>

#include "verify/report.h"

namespace shardc {

// Returns a table with a line per case. The reasons of failures and of
// unsupported cases follow. Then come the attention projections whose sharding
// of heads differs from that of the cases, remarks, the sizes of the inputs
// (such as batch=2 and heads=8), and the number of cases by status.
std::string ReportText(const verify::Report& report);

}  // namespace shardc

#endif  // SHARDC_EMIT_VERIFY_REPORT_TEXT_H_
