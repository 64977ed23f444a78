// `# shardc: ignore[SHD203] reason` in rules files.
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

// One code named by one comment.
struct Ignore {
  const Code* code = nullptr;  // null: no diagnostic has this name
  std::string text;            // as written
  Place place;                 // of `text`
  int line = 0;                // the comment's
  int covers = 0;  // the next line that is no comment, where it stands alone
  bool used = false;
};

// A comment of its own that ignores something in what follows.
bool IsIgnoreMark(std::string_view line);

std::vector<Ignore> IgnoresIn(const SourceRef& source);

// Comments that were meant to ignore something and cannot be read as that.
std::vector<Place> MalformedIgnoresIn(const SourceRef& source);

// Takes suppressed findings out and marks the ignores that did it.
void ApplyIgnores(std::vector<Ignore>& ignores, FindingSink& findings);

// A finding for each mark that cannot be read.
void ReportMalformed(std::span<const Place> marks, FindingSink& sink);

// A finding for each ignore that did nothing, though its lint ran.
void ReportUnused(std::span<const Ignore> ignores, const std::set<int>& ran,
                  FindingSink& sink);

}  // namespace shardc

#endif  // SHARDC_LINT_SUPPRESS_H_
