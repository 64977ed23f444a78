// A plan that is up to date is the same bytes: they are compared as they are
// written, and only where one differs is the plan made into a text, which is
// then read and compared field by field. Many findings end in one that counts:
//
//   23 differences, limit 20  ->  20 findings and `3 more differences`
#include "lint/locked.h"

#include <string>
#include <utility>

#include "lint/rules/all.h"
#include "lint/step_difference.h"
#include "source/matching_sink.h"
#include "source/wording.h"

namespace shardc {
namespace {

Finding Make(Place place, std::string message, Level level, std::string help) {
  Finding out;
  out.code = &kPlanOutOfDate.code;
  out.level = level;
  // The place of a whole object would be underlined to its end.
  if (place.HasPosition()) place.end = place.begin + 1;
  out.place = std::move(place);
  out.message = std::move(message);
  out.help = std::move(help);
  return out;
}

std::optional<std::vector<PlanDifference>> Compare(const WritePlan& give,
                                                   const SourceRef& committed,
                                                   Committed kind,
                                                   Findings& errors) {
  const SourceRef now = MakeSource("the plan of now", TextOf(give));
  return kind == Committed::kStep ? CompareSteps(committed, now, errors)
                                  : ComparePlans(committed, now, errors);
}

bool IsUpToDate(const WritePlan& give, std::string_view committed) {
  MatchingSink sink(committed);
  give(sink);
  return sink.Matches();
}

}  // namespace

std::optional<std::vector<PlanDifference>> DifferencesFrom(
    const WritePlan& give, const SourceRef& committed, Findings& errors,
    Committed kind) {
  if (IsUpToDate(give, committed->text())) return std::vector<PlanDifference>();
  return Compare(give, committed, kind, errors);
}

FindingSink CompareLocked(const WritePlan& give, const SourceRef& committed,
                          Findings& errors, Committed kind, size_t limit) {
  if (IsUpToDate(give, committed->text())) return {};
  auto differences = Compare(give, committed, kind, errors);
  if (!differences) return {};
  const Place whole{committed, 0, committed->text().size()};
  if (differences->empty()) {
    return {Make(whole,
                 std::string("the committed ") +
                     (kind == Committed::kStep ? "step program" : "plan") +
                     " says what the inputs give in other "
                     "words: order, spacing or `source` differ",
                 Level::kNote, "`shardc plan --write-locked` writes it anew")};
  }
  const std::string help =
      "look at the change, then run `shardc plan --write-locked`";
  FindingSink out;
  for (PlanDifference& one : *differences) {
    if (out.size() == limit) {
      out.push_back(
          Make(whole,
               Counted(static_cast<int64_t>(differences->size() - out.size()),
                       "more difference"),
               Level::kError, help));
      break;
    }
    Finding finding =
        Make(one.place, std::move(one.message), Level::kError, help);
    finding.params = std::move(one.params);
    out.push_back(std::move(finding));
  }
  return out;
}

}  // namespace shardc
