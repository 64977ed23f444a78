// Mechanical fixes of rules files, as edits of their text: comments and
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

// What mends one finding; made as a whole or not at all.
struct RuleFix {
  const Code* code = nullptr;
  SourceRef source;
  FileId file;
  std::vector<TextEdit> edits;
  Place place = {};  // of the finding
};

// Moves catch-alls to the end, removes duplicates, escapes dots and anchors
// patterns, for those of `findings` that ask for it. Rules written in flow
// style, and catch-alls above another one, are left to people. Whether a spec
// changes is for the caller to find out.
std::vector<RuleFix> FixesOf(const Facts& facts,
                             std::span<const Finding> findings);

// Whether two fixes edit the same bytes, so that only one can be made.
bool Meet(const RuleFix& a, const RuleFix& b);

// The text with all of these fixes, no two of which meet.
std::string Fixed(std::string_view text, std::span<const RuleFix> fixes);

}  // namespace shardc

#endif  // SHARDC_LINT_FIX_H_
