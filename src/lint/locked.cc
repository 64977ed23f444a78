// Compares a committed plan with the current plan. If the committed plan is up
// to date, both have the same bytes, so the bytes are compared while the
// current plan is written. If a byte differs, the current plan is written to
// memory, parsed and compared member by member. Differences beyond a limit are
// counted but not listed:
//
//   23 differences, limit 20  ->  20 findings and `3 more differences`
#include "lint/locked.h"

#include <string>
#include <utility>

#include "lint/rules/all.h"
#include "plan/difference/stage_moves.h"
#include "source/matching_sink.h"
#include "source/wording.h"

namespace shardc {
namespace {

Finding Make(Place place, std::string message, Level level, std::string help) {
  Finding out;
  out.code = &kPlanOutOfDate.code;
  out.level = level;
  // Only the first character is marked, because the place may be a large
  // object.
  if (place.HasPosition()) place.end = place.begin + 1;
  out.place = std::move(place);
  out.message = std::move(message);
  out.help = std::move(help);
  return out;
}

bool IsUpToDate(const WritePlan& give, std::string_view committed) {
  MatchingSink sink(committed);
  give(sink);
  return sink.Matches();
}

std::optional<PlanDifference> Compare(const WritePlan& give,
                                      const SourceRef& committed,
                                      Findings& errors, Committed kind) {
  const SourceRef now = MakeSource("the plan of the inputs", TextOf(give));
  return kind == Committed::kStep ? CompareSteps(committed, now, errors)
                                  : ComparePlans(committed, now, errors);
}

// Returns the finding that counts the differences beyond the limit.
Finding MoreDifferences(Place whole, size_t more, const std::string& help) {
  return Make(std::move(whole),
              Counted(static_cast<int64_t>(more), "more difference"),
              Level::kError, help);
}

}  // namespace

std::optional<PlanDifference> DifferenceFrom(const WritePlan& give,
                                             const SourceRef& committed,
                                             Findings& errors, Committed kind) {
  if (IsUpToDate(give, committed->text())) return PlanDifference();
  return Compare(give, committed, errors, kind);
}

FindingSink CompareLocked(const WritePlan& give, const SourceRef& committed,
                          Findings& errors, Committed kind, size_t limit) {
  if (IsUpToDate(give, committed->text())) return {};
  auto difference = Compare(give, committed, errors, kind);
  if (!difference) return {};
  const Place whole{committed, 0, committed->text().size()};
  if (difference->empty()) {
    return {Make(whole,
                 std::string("the committed ") +
                     (kind == Committed::kStep ? "step program" : "plan") +
                     " has the meaning that the inputs give in another "
                     "spelling: order, spacing or `source` differ",
                 Level::kNote, "`shardc plan --write-locked` rewrites it")};
  }
  const std::string help =
      "look at the change, then run `shardc plan --write-locked`";
  // If layers move to another stage, the move is reported once, and not again
  // for each parameter of these layers.
  std::erase_if(difference->fields, [&](const FieldChange& one) {
    return one.detailed && !difference->layers.empty() &&
           (one.field == "stages" || one.field == "slices");
  });
  const size_t differences = difference->layers.size() +
                             difference->fields.size() +
                             difference->steps.size();
  FindingSink out;
  for (const LayerMove& move : difference->layers) {
    if (out.size() == limit) break;
    out.push_back(Make(move.place, LayerMoveText(move), Level::kError, help));
  }
  for (FieldChange& one : difference->fields) {
    if (out.size() == limit) break;
    Finding& finding = out.emplace_back(
        Make(one.place, std::move(one.message), Level::kError, help));
    finding.params = std::move(one.names);
  }
  for (StepChange& one : difference->steps) {
    if (out.size() == limit) break;
    out.push_back(Make(one.place, std::move(one.message), Level::kError, help));
  }
  if (differences > limit) {
    out.push_back(MoreDifferences(whole, differences - limit, help));
  }
  return out;
}

}  // namespace shardc
