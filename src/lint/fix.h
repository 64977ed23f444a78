// Mechanical fixes of rules files, as edits of their text: comments and
// formatting stay.
#ifndef SHARDC_LINT_FIX_H_
#define SHARDC_LINT_FIX_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lint/analysis/facts.h"

namespace shardc {

struct FixedFile {
  SourceRef source;
  std::string text;   // fixed
  int64_t fixes = 0;  // findings that it fixes
};

// Moves catch-alls to the end, removes duplicates, escapes dots and anchors
// patterns, for those of `findings` that ask for it. Rules written in flow
// style, and catch-alls above another one, are left to people. Files without
// a fix are left out.
std::vector<FixedFile> FixRules(const Facts& facts,
                                std::span<const Finding> findings);

}  // namespace shardc

#endif  // SHARDC_LINT_FIX_H_
