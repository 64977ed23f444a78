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
#include "lint/rules/lint.h"
#include "source/wording.h"

namespace shardc {

extern const Lint kMicrobatchesInRounds;

namespace {

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

}  // namespace

constinit const Lint kMicrobatchesInRounds{
    .code = {253, "microbatches-in-rounds", Level::kWarning,
             "the ranks of interleaved stages do not divide the micro-batches"},
    .what =
        "Finds declared stages of which each rank has several, where the "
        "number of micro-batches is no multiple of the number of ranks.",
    .why =
        "The schedule runs micro-batches in rounds. Megatron-LM and MaxText "
        "run rounds with one micro-batch for each rank and refuse other "
        "numbers, and so do the exports for them.",
    .instead = "Use a number of micro-batches that the ranks divide.",
    .bad = {.mesh = "pp:4,tp:2",
            .rules = R"(version: 1
stages: {axis: pp, virtual: 2, schedule: interleaved, microbatches: 6}
rules:
  - match: 'weight'
    spec: [tp]
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "embed_tokens.weight": {"shape": [4096, 64], "dtype": "BF16"},
  "layers.0.down_proj.weight": {"shape": [64, 1024], "dtype": "BF16"},
  "layers.1.down_proj.weight": {"shape": [64, 1024], "dtype": "BF16"},
  "layers.2.down_proj.weight": {"shape": [64, 1024], "dtype": "BF16"},
  "layers.3.down_proj.weight": {"shape": [64, 1024], "dtype": "BF16"},
  "layers.4.down_proj.weight": {"shape": [64, 1024], "dtype": "BF16"},
  "layers.5.down_proj.weight": {"shape": [64, 1024], "dtype": "BF16"},
  "layers.6.down_proj.weight": {"shape": [64, 1024], "dtype": "BF16"},
  "layers.7.down_proj.weight": {"shape": [64, 1024], "dtype": "BF16"},
  "lm_head.weight": {"shape": [4096, 64], "dtype": "BF16"}}}
)"},
    .good = {.rules = R"(version: 1
stages: {axis: pp, virtual: 2, schedule: interleaved, microbatches: 8}
rules:
  - match: 'weight'
    spec: [tp]
)"},
    .check = CheckMicrobatchesInRounds};

}  // namespace shardc
