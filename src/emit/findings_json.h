// Findings as JSON: {"code", "name", "level", "message", "file", "line",
// "column", "end_line", "end_column", "help", "params"}.
#ifndef SHARDC_EMIT_FINDINGS_JSON_H_
#define SHARDC_EMIT_FINDINGS_JSON_H_

#include <span>
#include <string>
#include <string_view>

#include "source/finding.h"

namespace shardc {

// An array, one finding a line, each line after `indent` and two spaces.
void AppendFindingsJson(std::string& out, std::span<const Finding> findings,
                        std::string_view indent);

}  // namespace shardc

#endif  // SHARDC_EMIT_FINDINGS_JSON_H_
