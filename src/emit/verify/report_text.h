// Writes the results of `shardc verify` as text.
#ifndef SHARDC_EMIT_VERIFY_REPORT_TEXT_H_
#define SHARDC_EMIT_VERIFY_REPORT_TEXT_H_

#include <string>

#include "verify/answers/known_answers.h"
#include "verify/faults/fault_injection.h"
#include "verify/report.h"
#include "verify/sharpness.h"

namespace shardc {

// Returns a table with a line per case. The reasons of failures and of
// unsupported cases follow. Then come the attention projections whose sharding
// of heads differs from that of the cases, remarks, the sizes of the inputs
// (such as batch=2 and heads=8), and the number of cases by status.
std::string ReportText(const verify::Report& report);
// Returns a line per injected fault, with the case that detected the fault.
std::string SelfTestText(const verify::SelfTest& result);
// Returns the result of a test that the tolerances are neither too narrow nor
// too wide. It lists the correct outputs that were rejected and the wrong
// outputs that were accepted. The last line has the number of wrong outputs
// that were compared, and how many of them were rejected.
std::string SharpnessText(const verify::Sharpness& result);
std::string KnownAnswersText(const verify::KnownAnswers& result);

}  // namespace shardc

#endif  // SHARDC_EMIT_VERIFY_REPORT_TEXT_H_
