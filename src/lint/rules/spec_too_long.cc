#include "lint/analysis/facts.h"
#include "lint/analysis/legality.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"
#include "source/wording.h"

namespace shardc {
namespace {

// Returns a text that lists the entries of a spec for which the tensor has no
// dimension. The first of these entries is `first`.
std::string SurplusText(const Spec& spec, const Edit& first) {
  const Spec surplus(spec.begin() + first.dim.value_or(0), spec.end());
  if (surplus.size() > 1) {
    return "; the last " + std::to_string(surplus.size()) + " entries, " +
           SpecText(surplus) + ", have no dimension";
  }
  if (first.from.empty()) return {};
  return "; " + GroupText(first.from) + " has no dimension";
}

std::string ObserveSpecTooLong(const Facts& facts, const ParameterGroup& group,
                               const ModeLayout& mode, const Edit& first) {
  return "the spec of " + ParametersText(facts, group) + " has " +
         Counted(static_cast<int64_t>(mode.resolved.size()), "entry",
                 "entries") +
         ", the parameter " + Counted(facts.Rank(group), "dimension") +
         SurplusText(mode.resolved, first);
}

}  // namespace

void CheckSpecTooLong(const Facts& facts, FindingSink& sink) {
  ReportEdits(
      facts, kSpecTooLong.code, Reason::kTooLong,
      [&](const ParameterGroup& group, const ModeLayout& mode,
          const Edit& first) {
        return ObserveSpecTooLong(facts, group, mode, first);
      },
      "shorten the spec, or write a rule for this parameter", sink);
}

}  // namespace shardc
