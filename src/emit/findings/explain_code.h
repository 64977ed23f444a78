// What a diagnostic means and how to fix it, as text.
#ifndef SHARDC_EMIT_FINDINGS_EXPLAIN_CODE_H_
#define SHARDC_EMIT_FINDINGS_EXPLAIN_CODE_H_

#include <optional>
#include <string>
#include <string_view>

namespace shardc {

// By code or name ("SHD101", "catch-all-replicates"); nothing if there is
// none. Ends with a line break.
std::optional<std::string> ExplainCode(std::string_view code);

// Every diagnostic as Markdown, for the documentation.
std::string CodesMarkdown();

}  // namespace shardc

#endif  // SHARDC_EMIT_FINDINGS_EXPLAIN_CODE_H_
