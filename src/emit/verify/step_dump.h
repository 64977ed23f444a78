// Writes the tensors and settings of a step, so that another program can
// recompute it.
#ifndef SHARDC_EMIT_VERIFY_STEP_DUMP_H_
#define SHARDC_EMIT_VERIFY_STEP_DUMP_H_

#include <string>

#include "source/sink.h"
#include "verify/step/step_report.h"

namespace shardc {

// Returns a safetensors file. An input with number 3 has two tensors:
// `0003.input` in its own dtype and `0003.reference` in float64. A compared
// value with number 12 has `0012.output`, gathered from the devices, and
// `0012.reference`.
std::string StepDumpTensors(const verify::StepReport& report);

// Writes {"step": ..., "settings": {...}, "tensors": [...]}. `step` is the
// object that WriteStepReport() writes. `settings` has the other options of the
// run. `tensors` describes the tensor that each number of StepDumpTensors
// names.
void WriteStepDumpJson(const verify::StepReport& report, Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_VERIFY_STEP_DUMP_H_
