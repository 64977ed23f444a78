#include <string>

#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/stages.h"
#include "lint/rules/all.h"
#include "source/wording.h"

namespace shardc {

void CheckBubbleLarge(const Facts& facts, FindingSink& sink) {
  const auto bubble = LargeBubbleOf(facts);
  if (!bubble) return;
  LintFinding finding = FindingAt(kBubbleLarge.code, StagesPlace(facts));
  finding.message =
      PartText(bubble->part) +
      " of the step is bubble: " + Quoted(bubble->schedule) + " on " +
      Counted(bubble->ranks, "rank") + " with " +
      Counted(bubble->microbatches, "micro-batch", "micro-batches") +
      ", if forward and backward tasks take the same time";
  finding.help = bubble->better.empty()
                     ? "use more micro-batches"
                     : "use more micro-batches, or " + Quoted(bubble->better) +
                           " with " + PartText(bubble->better_part) +
                           " in the same memory of " +
                           Counted(bubble->held, "activation");
  sink.push_back(std::move(finding));
}

}  // namespace shardc
