// Writes steps as JSON with the schema `shardc.step/v1`.
#ifndef SHARDC_EMIT_VERIFY_STEP_JSON_H_
#define SHARDC_EMIT_VERIFY_STEP_JSON_H_

#include <string>
#include <string_view>
#include <vector>

#include "source/json_writer.h"
#include "source/sink.h"
#include "verify/step/step_report.h"

namespace shardc {

// Writes one entry of the member `steps`.
void WriteStepReport(JsonWriter& json, const verify::StepReport& report);
// Writes an object whose member `steps` is the array of the reports.
void WriteStepJson(const std::vector<verify::StepReport>& reports, Sink& out);
void WriteParameterStepJson(std::string_view name,
                            const std::vector<verify::ParameterStep>& steps,
                            Sink& out);

std::string StepText(const verify::StepReport& report);
// Returns the text of `explain PARAM --ops`.
std::string ParameterStepText(const verify::ParameterStep& step);

}  // namespace shardc

#endif  // SHARDC_EMIT_VERIFY_STEP_JSON_H_
