// Mechanical fixes of rules files, as edits of their text, so that comments and
// formatting stay.
#ifndef SHARDC_LINT_FIX_H_
#define SHARDC_LINT_FIX_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lint/analysis/facts.h"

namespace shardc {

// Bytes [begin, end) become `text`.
struct TextEdit {
  size_t begin = 0;
  size_t end = 0;
  std::string text;

  bool operator==(const TextEdit&) const = default;
};

// The edits that fix one finding, applied together.
struct RuleFix {
  const Code* code = nullptr;
  SourceRef source;
  FileId file;
  std::vector<TextEdit> edits;
  Place place = {};  // of the finding
  // Offered only in an editor, since it removes text that a person may want to
  // correct instead, or that another target may use.
  bool by_hand = false;
};

// Moves catch-alls to the end, removes duplicates and ignores, escapes dots,
// appends `$` to patterns, removes a leading `.*` or `^`, writes patterns in
// the case of the names and removes unused definitions, for the findings that
// have such a fix. Rules in flow style, and catch-alls above another one, are
// not changed. The caller checks whether a spec changes.
std::vector<RuleFix> FixesOf(const Facts& facts,
                             std::span<const Finding> findings);

// Whether two fixes edit the same bytes, so that only one can be made.
bool Meet(const RuleFix& a, const RuleFix& b);

// The text with all of these fixes, which must not conflict.
std::string Fixed(std::string_view text, std::span<const RuleFix> fixes);

}  // namespace shardc

#endif  // SHARDC_LINT_FIX_H_
