// Directory: emit/findings. Writes findings, one file per format.
// Its files include headers of these directories: source, lint/rules, emit.
//
// A finding is an error, a warning or a note about an input. Names in findings
// may come from untrusted files, so each format escapes characters that could
// control a terminal, a browser or a CI workflow.
#ifndef SHARDC_EMIT_FINDINGS_FORMATS_H_
#define SHARDC_EMIT_FINDINGS_FORMATS_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "emit/emit.h"
#include "source/finding.h"
#include "source/json_writer.h"
#include "source/repository.h"
#include "source/sink.h"

namespace shardc {

struct FindingReport {
  std::span<const Finding> findings;  // sorted
  std::string_view version;           // version of shardc
  TextStyle style;                    // for the text format only
  Repository repository;              // printed paths are relative to its root
};

struct FindingFormat {
  std::string_view name;
  void (*write)(const FindingReport& report, Sink& out);
  // Whether the output depends on Finding::params. If not, a caller may leave
  // out these names, of which there may be millions.
  bool lists_names;
};

#define SHARDC_FINDING_FORMAT(name, write, lists_names) \
  void write(const FindingReport& report, Sink& out);
#include "emit/findings/table.h"
#undef SHARDC_FINDING_FORMAT

// All formats in the order of the table.
std::span<const FindingFormat> FindingFormats();
const FindingFormat* FindFindingFormat(std::string_view name);

// The names of the formats for the help of a command: "text|concise|json".
inline constexpr std::string_view kFindingFormatNames = [] {
  constexpr std::string_view kBarred =
#define SHARDC_FINDING_FORMAT(name, write, lists_names) "|" name
#include "emit/findings/table.h"
#undef SHARDC_FINDING_FORMAT
      ;
  return kBarred.substr(1);
}();

// Returns whether the place is in a file. Places in an option, in rules that
// are built into the program or follow from the configuration of a system, or
// in standard input are not in a file.
bool IsFile(const Place& place);
// Returns the place of the finding if it is in a file. Otherwise returns
// `main_file`, a file of the finding's target, such as the project file. The
// source of this place is null if the finding has no such file.
const Place& FilePlace(const Finding& finding);
// Returns the message, followed by up to three affected targets of the project.
std::string MessageText(const Finding& finding);
// Returns the text of MessageText. If the finding's place is not in a file but,
// for example, in an option, the text begins with the place.
std::string PlacedMessageText(const Finding& finding);

// Writes a finding (an error, a warning or a note) as JSON: {"code", "name",
// "level", "message", "file", "line", "column", "end_line", "end_column",
// "help", "params"}, and "targets" if there are any.

void WriteFinding(JsonWriter& json, const Finding& finding);
// Writes an array with one finding per line.
void WriteFindings(JsonWriter& json, std::span<const Finding> findings);

// Returns the unified diff with three lines of context; empty if the texts are
// equal.
std::string DiffText(const std::string& name, const std::string& before,
                     const std::string& after);

// Explains what a diagnostic means and how to fix it. The texts are the pages
// of texts/diagnostics, which the build writes into a table.

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

#endif  // SHARDC_EMIT_FINDINGS_FORMATS_H_
