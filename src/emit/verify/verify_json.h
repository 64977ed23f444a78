// Directory: emit/verify. Writes the results of verification as text, JSON and
// tensor files.
// Its files include headers of these directories: source, model, floats, comm,
// exec/machine, verify/cases, verify/judge, verify/faults, verify/answers,
// verify, verify/step.
//
// Writes the results of `shardc verify` as JSON with the schema
// `shardc.verify/v1`.
#ifndef SHARDC_EMIT_VERIFY_VERIFY_JSON_H_
#define SHARDC_EMIT_VERIFY_VERIFY_JSON_H_

#include "source/json_writer.h"
#include "verify/answers/known_answers.h"
#include "verify/faults/fault_injection.h"
#include "verify/report.h"
#include "verify/sharpness.h"

namespace shardc {

// How values per device are written: one value per device (kStacked), or the
// minimum, mean and maximum over devices (kReduced).
enum class Metrics { kReduced, kStacked };

void WriteVerifyCase(JsonWriter& json, const verify::Case& test,
                     const verify::CaseResult& result, Metrics metrics);
void WriteVerifyJson(const verify::Report& report, Metrics metrics, Sink& out);
// Writes the results of a self-test: {"planted", "caught", "wrong_outputs",
// "known_answers", "faults"}. `planted` is the number of injected faults, and
// `caught` the number that were detected.
void WriteSelfTestJson(const verify::SelfTest& result,
                       const verify::Sharpness& sharpness,
                       const verify::KnownAnswers& known, Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_VERIFY_VERIFY_JSON_H_
