// Explains what a diagnostic means and how to fix it. The texts are the pages
// of texts/diagnostics, which the build writes into a table.
#ifndef SHARDC_EMIT_FINDINGS_EXPLAIN_CODE_H_
#define SHARDC_EMIT_FINDINGS_EXPLAIN_CODE_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "source/finding.h"
#include "source/sink.h"

namespace shardc {

// The texts of a code. They follow each other in `texts`, since the loader
// writes each pointer of a table at every start of the program.
struct CodePage {
  // What the code reports, in full sentences.
  constexpr std::string_view what() const { return texts.substr(0, what_size); }
  // Why that is bad.
  constexpr std::string_view why() const {
    return texts.substr(what_size, why_size);
  }
  // What the user should write instead.
  constexpr std::string_view fix() const {
    return texts.substr(what_size + why_size, fix_size);
  }
  // What `shardc explain` prints below its first line: the texts in 76 columns
  // under headings, and two examples.
  constexpr std::string_view explanation() const {
    return texts.substr(what_size + why_size + fix_size);
  }

  int number = 0;
  size_t what_size = 0;  // in bytes
  size_t why_size = 0;
  size_t fix_size = 0;
  std::string_view texts;
};

// Returns the pages of all codes, sorted by number.
std::span<const CodePage> CodePages();
// Returns the page of a code; null if it has none.
const CodePage* FindPage(const Code& code);

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
