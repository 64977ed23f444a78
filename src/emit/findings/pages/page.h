// Room: emit/findings/pages. Explanations of codes that are no lints: unusable
// inputs, and findings in compiled programs.
// Includes: source.
//
// Explanations of three ranges of codes:
// - Below SHD100: an input or the command line cannot be used, and the command
//   ends with status 2.
// - SHD241 to SHD249: the stages of pipelines.
// - From SHD601 on: compiled programs. `shardc audit` reports these codes, and
//   `shardc check` reports those above SHD610.
//
// Each lint has its explanation in its own record (lint/rules/lint.h).
//
// An example is the text of a shell session: `--- NAME` begins a file, whose
// lines follow; `$ ` begins a command. tests/cli/explain_test.py runs every
// example in an empty folder. It checks that the bad example reports its code
// and no other, and that the good example reports nothing.
#ifndef SHARDC_EMIT_FINDINGS_PAGES_PAGE_H_
#define SHARDC_EMIT_FINDINGS_PAGES_PAGE_H_

#include <span>
#include <string_view>

#include "source/code.h"

namespace shardc {

struct CodePage {
  const Code* code = nullptr;
  std::string_view what;  // what the code reports
  std::string_view why;   // why that is bad or, for an input, why it is refused
  std::string_view fix;   // what to change
  std::string_view bad;   // a session that reports the code
  std::string_view good;  // the same session, corrected: it reports nothing
};

// Each of these functions returns the pages of a family of codes, sorted by
// number.
std::span<const CodePage> FilePages();      // SHD001-007, 060, 061
std::span<const CodePage> SyntaxPages();    // YAML, JSON, keys and values
std::span<const CodePage> RulePages();      // names, specs, patterns, meshes
std::span<const CodePage> TensorPages();    // headers and data of checkpoints
std::span<const CodePage> ExchangePages();  // formats of other systems
std::span<const CodePage> SchedulePages();  // SHD241-249
std::span<const CodePage> ProgramPages();   // SHD601-612

// Returns the page of a code; null for a code of a lint.
const CodePage* FindPage(const Code& code);

}  // namespace shardc

#endif  // SHARDC_EMIT_FINDINGS_PAGES_PAGE_H_
