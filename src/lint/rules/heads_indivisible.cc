#include "lint/analysis/attention_edits.h"
#include "lint/analysis/cache.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/heads.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"

namespace shardc {

void CheckHeadsIndivisible(const Facts& facts, FindingSink& sink) {
  const auto heads = HeadsOf(*facts.model());
  if (!heads) return;
  for (const ModeSplit& split : SplitsOf(
           facts, "query", kHeadsDim,
           {facts.model()->source, Place::kEntireFile, Place::kEntireFile})) {
    const int64_t parts = split.parts;
    if (heads->heads % parts == 0) continue;
    if (!Written(facts, split.modes.front(), "query", kHeadsDim)) continue;
    LintFinding finding = FindingAt(kHeadsIndivisible.code, split.place);
    finding.message = "the model has " + std::to_string(heads->heads) +
                      " heads, " + AxesHave(facts, split.axes) + " in " +
                      ModesText(facts, split) + ": " +
                      RemainderText(heads->heads, parts);
    // If a finding at the rule of a projection is about the same heads, this
    // finding is redundant.
    finding.unless = {HeadsTopic(heads->heads, parts)};
    finding.reports = finding.unless;
    finding.help = "give " +
                   SourceOf(facts, split, "query", kHeadsDim, AxisRule::kHead) +
                   " an axis whose size divides the heads";
    sink.push_back(std::move(finding));
  }
}

}  // namespace shardc
