// Writes the results of `shardc verify step` and `shardc explain --step` as
// text.
#ifndef SHARDC_EMIT_VERIFY_STEP_TEXT_H_
#define SHARDC_EMIT_VERIFY_STEP_TEXT_H_

#include <string>

#include "verify/step/parameter_step.h"
#include "verify/step/step_report.h"

namespace shardc {

std::string StepText(const verify::StepReport& report);
// Returns the text of `explain PARAM --step`.
std::string ParameterStepText(const verify::ParameterStep& step);

}  // namespace shardc

#endif  // SHARDC_EMIT_VERIFY_STEP_TEXT_H_
