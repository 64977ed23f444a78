// Findings in the formats that people and other programs read, one file per
// format. Names come from anywhere, so every format escapes what could drive
// a terminal, a browser or a workflow.
#ifndef SHARDC_EMIT_FINDINGS_FORMATS_H_
#define SHARDC_EMIT_FINDINGS_FORMATS_H_

#include <span>
#include <string_view>

#include "emit/emit.h"
#include "source/finding.h"
#include "source/sink.h"

namespace shardc {

struct FindingReport {
  std::span<const Finding> findings;  // sorted
  std::string_view version;           // of this program
  TextStyle style;                    // text only
};

struct FindingFormat {
  std::string_view name;
  void (*write)(const FindingReport& report, Sink& out);
};

// text, concise, json, sarif, github, junit, markdown.
std::span<const FindingFormat> FindingFormats();
const FindingFormat* FindFindingFormat(std::string_view name);

void FindingsText(const FindingReport& report, Sink& out);
// `file:line:column: level: message [SHD101]`, as compilers print.
void FindingsConcise(const FindingReport& report, Sink& out);
void FindingsJson(const FindingReport& report, Sink& out);
// SARIF 2.1.0 with every lint as a rule.
void FindingsSarif(const FindingReport& report, Sink& out);
// Workflow commands, errors first, as GitHub shows only some.
void FindingsGithub(const FindingReport& report, Sink& out);
// A suite per file; errors are failures, the rest passes with its text.
void FindingsJunit(const FindingReport& report, Sink& out);
// A table, for summaries and comments.
void FindingsMarkdown(const FindingReport& report, Sink& out);

// A path that a finding's place names, not a flag, a pack or standard input.
bool IsFile(const Place& place);

}  // namespace shardc

#endif  // SHARDC_EMIT_FINDINGS_FORMATS_H_
