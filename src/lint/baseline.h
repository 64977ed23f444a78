// Reads, writes and applies baselines. A baseline lists known findings that
// `check` accepts for now. A finding is identified by its code and parameter
// and not by its line, so a baseline stays valid if lines move.
#ifndef SHARDC_LINT_BASELINE_H_
#define SHARDC_LINT_BASELINE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lint/analysis/topic.h"
#include "lint/rules/lint.h"
#include "plan/difference/plan_difference.h"
#include "source/finding.h"
#include "source/sink.h"
#include "source/source.h"

namespace shardc {

// The content of a baseline file:
//   {"schema": "shardc.baseline/v1", "findings": {"SHD202": ["layers.*.up"]}}
struct Baseline {
  // The known names, keyed by code.
  std::map<std::string, std::set<std::string>, std::less<>> known;

  void Add(const Finding& finding);
  // Removes known parameters from findings, and removes findings whose
  // parameters are all known. Returns the number of removed findings.
  int64_t Apply(std::vector<Finding>& findings) const;
  void Write(Sink& out) const;
};

std::optional<Baseline> ReadBaseline(const std::string& path,
                                     Findings& findings);

using WritePlan = std::function<void(Sink& out)>;

// The kind of a committed file: a plan or a step program.
enum class Committed : uint8_t { kPlan, kStep };

// Compares the `committed` file with the current plan or step program, which
// `give` writes. Returns nullopt after a finding in `errors` if the file cannot
// be read.
std::optional<PlanDifference> DifferenceFrom(const WritePlan& give,
                                             const SourceRef& committed,
                                             Findings& errors,
                                             Committed kind = Committed::kPlan);

// Compares the files as DifferenceFrom does. Returns one finding for each
// difference, at its place in the committed file. Parameters that differ only
// in layer numbers share a finding. If the bytes differ but the meaning does
// not, returns one note. Returns an empty list if the bytes are equal or the
// file cannot be read. If there are more than `limit` differences, one more
// finding counts the remaining ones.
FindingSink CompareLocked(const WritePlan& give, const SourceRef& committed,
                          Findings& errors, Committed kind = Committed::kPlan,
                          size_t limit = 20);

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

#endif  // SHARDC_LINT_BASELINE_H_
