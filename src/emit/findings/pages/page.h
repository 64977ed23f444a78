// Directory: emit/findings/pages. Explains the diagnostic codes that are no
// lints.
// Its files include headers of these directories: source.
//
// Explains three ranges of diagnostic codes:
//
// - Below SHD100: an input or the command line cannot be used, and the command
//   ends with status 2.
// - SHD241 to SHD249: the stages of pipelines.
// - From SHD601 on: mistakes in compiled programs. `shardc audit` reports these
//   codes, but for SHD611 and SHD612, which `shardc check` reports.
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
  // What the code reports.
  std::string_view what;
  // Why that is bad or, for an input, why the input is refused.
  std::string_view why;
  // What the user must change.
  std::string_view fix;
  // A shell session in which shardc reports the code.
  std::string_view bad;
  // The same session with corrected files, in which shardc reports nothing.
  std::string_view good;
};

// Each of these functions returns the pages of a family of codes, sorted by
// number. The comment after a function has the numbers or the subject of its
// codes.
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
