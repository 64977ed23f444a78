// Makes mechanical fixes of rules files as edits of their text, so that
// comments and formatting are kept.
#ifndef SHARDC_LINT_FIX_H_
#define SHARDC_LINT_FIX_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lint/analysis/facts.h"

namespace shardc {

// Replaces the bytes [begin, end) by `text`.
struct TextEdit {
  size_t begin = 0;
  size_t end = 0;
  std::string text;

  bool operator==(const TextEdit&) const = default;
};

// The edits that fix one finding. They are correct only if all of them are
// applied.
struct RuleFix {
  const Code* code = nullptr;
  SourceRef source;
  FileId file;
  std::vector<TextEdit> edits;
  Place place = {};  // place of the finding
  // Whether only editors offer the fix, and `check --fix` does not make it.
  // Such a fix removes text that a person may want to correct instead, or that
  // another target may use.
  bool by_hand = false;
};

// Returns fixes for the findings that have one. Fixes move catch-alls to the
// end of their file, escape dots, append `$` to patterns, remove a leading `.*`
// or `^`, write patterns in the case of the names, and remove duplicate rules,
// dead rules, unused ignores and unused definitions. A rule in flow style is
// neither moved nor removed. A catch-all is not moved if its file has another
// one below it. A fix may change specs, so the caller must compare the specs
// without and with the fix.
std::vector<RuleFix> FixesOf(const Facts& facts,
                             std::span<const Finding> findings);

// Returns whether two fixes edit the same bytes. If so, only one of them can be
// applied.
bool Meet(const RuleFix& a, const RuleFix& b);

// Returns the line break of the first line, or "\n" if the text is one line.
std::string_view BreakOf(std::string_view text);

// Returns the text after these fixes are applied. The fixes must not conflict.
std::string Fixed(std::string_view text, std::span<const RuleFix> fixes);

}  // namespace shardc

#endif  // SHARDC_LINT_FIX_H_
