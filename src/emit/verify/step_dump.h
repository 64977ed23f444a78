// A step's tensors and settings as files, so that other tools can recompute
// it.
#ifndef SHARDC_EMIT_VERIFY_STEP_DUMP_H_
#define SHARDC_EMIT_VERIFY_STEP_DUMP_H_

#include <string>

#include "source/sink.h"
#include "verify/step/step_report.h"

namespace shardc {

// A safetensors file: of each input `0003.input` in its dtype and
// `0003.reference` in float64, of each value that was compared
// `0012.output`, gathered, and `0012.reference`.
std::string StepDumpTensors(const verify::StepReport& report);

// {"step": ..., "settings": {...}, "tensors": [...]}: the report's entry, what
// else was chosen, and what each number stands for.
void WriteStepDumpJson(const verify::StepReport& report, Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_VERIFY_STEP_DUMP_H_
