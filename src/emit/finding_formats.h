// Findings in the formats that people and other programs read, one file per
// format. Names come from anywhere, so every format escapes what could drive
// a terminal, a browser or a workflow.
#ifndef SHARDC_EMIT_FINDING_FORMATS_H_
#define SHARDC_EMIT_FINDING_FORMATS_H_

#include <span>
#include <string>
#include <string_view>

#include "emit/emit.h"
#include "source/finding.h"

namespace shardc {

struct FindingReport {
  std::span<const Finding> findings;  // sorted
  std::string_view version;           // of this program
  TextStyle style;                    // text only
};

struct FindingFormat {
  std::string_view name;
  std::string (*emit)(const FindingReport& report);
};

// text, concise, json, sarif, github, junit, markdown.
std::span<const FindingFormat> FindingFormats();
const FindingFormat* FindFindingFormat(std::string_view name);

std::string FindingsText(const FindingReport& report);
// `file:line:column: level: message [SHD101]`, as compilers print.
std::string FindingsConcise(const FindingReport& report);
std::string FindingsJson(const FindingReport& report);
// SARIF 2.1.0 with every lint as a rule.
std::string FindingsSarif(const FindingReport& report);
// Workflow commands, errors first, as GitHub shows only some.
std::string FindingsGithub(const FindingReport& report);
// A suite per file; errors are failures, the rest passes with its text.
std::string FindingsJunit(const FindingReport& report);
// A table, for summaries and comments.
std::string FindingsMarkdown(const FindingReport& report);

// A path that a finding's place names, not a flag, a pack or standard input.
bool IsFile(const Place& place);

}  // namespace shardc

#endif  // SHARDC_EMIT_FINDING_FORMATS_H_
