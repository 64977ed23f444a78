// Writes a finding (an error, a warning or a note) as JSON: {"code", "name",
// "level", "message", "file", "line", "column", "end_line", "end_column",
// "help", "params"}, and "targets" if there are any.
#ifndef SHARDC_EMIT_FINDINGS_JSON_H_
#define SHARDC_EMIT_FINDINGS_JSON_H_

#include <span>

#include "source/finding.h"
#include "source/json_writer.h"

namespace shardc {

void WriteFinding(JsonWriter& json, const Finding& finding);
// Writes an array with one finding per line.
void WriteFindings(JsonWriter& json, std::span<const Finding> findings);

}  // namespace shardc

#endif  // SHARDC_EMIT_FINDINGS_JSON_H_
