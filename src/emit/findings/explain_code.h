// Explains what a diagnostic means and how to fix it.
#ifndef SHARDC_EMIT_FINDINGS_EXPLAIN_CODE_H_
#define SHARDC_EMIT_FINDINGS_EXPLAIN_CODE_H_

#include <optional>
#include <string>
#include <string_view>

#include "source/sink.h"

namespace shardc {

// Returns the explanation of a diagnostic, given its code or its name
// ("SHD101", "catch-all-replicates"). The text ends with a line break. Returns
// nullopt if there is no such diagnostic.
std::optional<std::string> ExplainCode(std::string_view code);

// Writes the diagnostic with this code or name as a JSON object with `code`,
// `name`, `level`, `preview`, `meaning` (one line) and `explanation` (the text
// of ExplainCode without its first line). Writes nothing if there is no such
// diagnostic.
void WriteCodeJson(std::string_view code, Sink& out);

// Returns all diagnostics as Markdown, for the documentation.
std::string CodesMarkdown();
// Writes all diagnostics as a JSON array of the objects of WriteCodeJson.
void WriteCodesJson(Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_FINDINGS_EXPLAIN_CODE_H_
