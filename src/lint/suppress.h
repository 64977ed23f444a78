// Reads and applies the comments in rules files that suppress findings, such as
// `# shardc: ignore[SHD203] reason`.
#ifndef SHARDC_LINT_SUPPRESS_H_
#define SHARDC_LINT_SUPPRESS_H_

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lint/analysis/topic.h"
#include "lint/rules/lint.h"
#include "source/finding.h"

namespace shardc {

// One code in an ignore comment.
struct Ignore {
  const Code* code = nullptr;  // null if no diagnostic has this name
  std::string text;            // as written
  Place place;                 // the place of `text` in the comment
  int line = 0;                // number of the comment's line
  // The second line in which findings are ignored. If the comment is alone on
  // its line, this is the next line that is neither blank nor a comment.
  // Otherwise it equals `line`.
  int covers = 0;
  bool used = false;
};

// Returns whether a line begins with an ignore comment. Such a comment also
// covers the next line.
bool IsIgnoreMark(std::string_view line);

// The ignores in the comments of a file, and the places of comments that are
// meant as ignores but are misspelled.
struct IgnoreComments {
  std::vector<Ignore> ignores;
  std::vector<Place> malformed;
};
IgnoreComments IgnoreCommentsIn(const SourceRef& source);

// Removes the findings that ignores suppress, and marks these ignores as used.
void ApplyIgnores(std::vector<Ignore>& ignores, FindingSink& findings);

// Reports one finding for each misspelled ignore.
void ReportMalformed(std::span<const Place> marks, FindingSink& sink);

// Reports one finding for each ignore that names no diagnostic, or that
// suppressed nothing although its lint ran. `ran` has the numbers of the lints
// that ran. Ignores in packs (rules inside the program) are not reported.
void ReportUnused(std::span<const Ignore> ignores, const std::set<int>& ran,
                  FindingSink& sink);

}  // namespace shardc

#endif  // SHARDC_LINT_SUPPRESS_H_
