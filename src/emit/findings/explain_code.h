// Explains what a diagnostic means and how to fix it.
#ifndef SHARDC_EMIT_FINDINGS_EXPLAIN_CODE_H_
#define SHARDC_EMIT_FINDINGS_EXPLAIN_CODE_H_

#include <optional>
#include <string>
#include <string_view>

namespace shardc {

// Returns the explanation of a diagnostic, given its code or its name
// ("SHD101", "catch-all-replicates"). The text ends with a line break. Returns
// nullopt if there is no such diagnostic.
std::optional<std::string> ExplainCode(std::string_view code);

// Returns all diagnostics as Markdown, for the documentation.
std::string CodesMarkdown();

}  // namespace shardc

#endif  // SHARDC_EMIT_FINDINGS_EXPLAIN_CODE_H_
