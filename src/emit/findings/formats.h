// Findings in the formats that people and other programs read, one file per
// format. Names come from anywhere, so every format escapes what could drive
// a terminal, a browser or a workflow.
#ifndef SHARDC_EMIT_FINDINGS_FORMATS_H_
#define SHARDC_EMIT_FINDINGS_FORMATS_H_

#include <span>
#include <string_view>

#include "emit/emit.h"
#include "source/finding.h"
#include "source/repository.h"
#include "source/sink.h"

namespace shardc {

struct FindingReport {
  std::span<const Finding> findings;  // sorted
  std::string_view version;           // of this program
  TextStyle style;                    // text only
  Repository repository;              // what services show paths relative to
};

struct FindingFormat {
  std::string_view name;
  void (*write)(const FindingReport& report, Sink& out);
};

#define SHARDC_FINDING_FORMAT(name, write) \
  void write(const FindingReport& report, Sink& out);
#include "emit/findings/table.h"
#undef SHARDC_FINDING_FORMAT

// In the order of the table.
std::span<const FindingFormat> FindingFormats();
const FindingFormat* FindFindingFormat(std::string_view name);

// "text|concise|json", as a command's help lists them.
inline constexpr std::string_view kFindingFormatNames = [] {
  constexpr std::string_view kBarred =
#define SHARDC_FINDING_FORMAT(name, write) "|" name
#include "emit/findings/table.h"
#undef SHARDC_FINDING_FORMAT
      ;
  return kBarred.substr(1);
}();

// A path that a finding's place names, not a flag, a pack or standard input.
bool IsFile(const Place& place);
// The place in a file: the finding's own, or that which stands in for it. No
// source where nothing is a file.
const Place& FilePlace(const Finding& finding);
// The message and the targets it holds for.
std::string MessageText(const Finding& finding);
// The same, with the place before it where that is in no file.
std::string PlacedMessageText(const Finding& finding);

}  // namespace shardc

#endif  // SHARDC_EMIT_FINDINGS_FORMATS_H_
