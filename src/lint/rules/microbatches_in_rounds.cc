// Reports interleaved stages whose number of micro-batches is no multiple of
// the number of ranks. The schedule runs the micro-batches in rounds. PyTorch
// accepts a longer round, but other systems accept only rounds with one
// micro-batch for each rank:
//
//   6 micro-batches on 4 ranks with 2 stages each  ->  Megatron-LM refuses
#include <string>

#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/stages.h"
#include "lint/rules/all.h"
#include "source/wording.h"

namespace shardc {

void CheckMicrobatchesInRounds(const Facts& facts, FindingSink& sink) {
  const auto rounds = UnevenRoundsOf(facts);
  if (!rounds) return;
  const int32_t ranks = rounds->ranks, micro = rounds->microbatches;
  LintFinding finding =
      FindingAt(kMicrobatchesInRounds.code, StagesPlace(facts));
  finding.message =
      Quoted(rounds->schedule) + " with " + Counted(rounds->stages, "stage") +
      " on " + Counted(ranks, "rank") + " has " +
      Counted(micro, "micro-batch", "micro-batches") + ", and " +
      (rounds->schedule == "interleaved" ? "Megatron-LM and MaxText accept"
                                         : "MaxText accepts") +
      " only a multiple of the ranks";
  finding.help = "write `microbatches: " +
                 std::to_string((micro + ranks - 1) / ranks * ranks) + "`";
  sink.push_back(std::move(finding));
}

}  // namespace shardc
