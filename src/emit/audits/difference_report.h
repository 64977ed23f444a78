// Writes how the collectives of a compiled program differ from the collectives
// that shardc planned.
#ifndef SHARDC_EMIT_AUDITS_DIFFERENCE_REPORT_H_
#define SHARDC_EMIT_AUDITS_DIFFERENCE_REPORT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "audit/difference.h"
#include "audit/planned_step.h"
#include "source/json_writer.h"

namespace shardc {

// The planned step that a compiled program was compared with, and the
// differences.
struct StepCompared {
  audit::PlannedStep step;
  audit::Difference difference;
};

// Returns how the compiled program differs from the planned step for one kind
// of collective and its axes: "equal", "missing", "extra", "less" or "more".
std::string_view StatusText(const audit::RouteCompared& one);
// Returns the names of the applied rewrites, such as "sliced, joined". A
// rewrite replaces collectives by equivalent ones before the comparison:
// `sliced` turns an all_reduce with a slice into a reduce_scatter.
std::string RewritesText(uint8_t rewrites);
std::string DifferenceText(const StepCompared& compared);
// Writes the member `difference` with the step's settings and differences.
void WriteDifferenceMembers(JsonWriter& json, const StepCompared& compared);
// Writes `{"file", "line", "function"}`, or null if the file is not known.
void WriteSourceLine(JsonWriter& json, const hlo::SourceLine& line);

}  // namespace shardc

#endif  // SHARDC_EMIT_AUDITS_DIFFERENCE_REPORT_H_
