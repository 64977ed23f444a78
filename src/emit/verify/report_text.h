// What `verify` tells people.
#ifndef SHARDC_EMIT_VERIFY_REPORT_TEXT_H_
#define SHARDC_EMIT_VERIFY_REPORT_TEXT_H_

#include <string>

#include "verify/answers/known_answers.h"
#include "verify/faults/fault_injection.h"
#include "verify/report.h"
#include "verify/sharpness.h"

namespace shardc {

// As a table: one line per case, failures and what is unsupported explained
// below it.
std::string ReportText(const verify::Report& report);
// One line per fault: what caught it.
std::string SelfTestText(const verify::SelfTest& result);
// A line that counts them, below those that were taken for right.
std::string SharpnessText(const verify::Sharpness& result);
std::string KnownAnswersText(const verify::KnownAnswers& result);

}  // namespace shardc

#endif  // SHARDC_EMIT_VERIFY_REPORT_TEXT_H_
