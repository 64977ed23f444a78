// Directory: emit/verify. Writes the results of verification as text, JSON and
// tensor files.
// Its files include headers of these directories: source, model, floats, comm,
// exec/machine, verify/cases, verify/judge, verify, verify/step,
// verify/program.
//
// Writes the results of `shardc verify` as JSON with the schema
// `shardc.verify/v1`.
#ifndef SHARDC_EMIT_VERIFY_VERIFY_JSON_H_
#define SHARDC_EMIT_VERIFY_VERIFY_JSON_H_

#include "source/json_writer.h"
#include "verify/report.h"

namespace shardc {

// How values per device are written: one value per device (kStacked), or the
// minimum, mean and maximum over devices (kReduced).
enum class Metrics { kReduced, kStacked };

void WriteVerifyCase(JsonWriter& json, const verify::Case& test,
                     const verify::CaseResult& result, Metrics metrics);
void WriteVerifyJson(const verify::Report& report, Metrics metrics, Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_VERIFY_VERIFY_JSON_H_
