#include <string>

#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/stages.h"
#include "lint/rules/lint.h"
#include "source/wording.h"

namespace shardc {

extern const Lint kBubbleLarge;

namespace {

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

}  // namespace

constinit const Lint kBubbleLarge{
    .code = {250, "bubble-large", Level::kNote,
             "a fifth of a pipeline's step or more is bubble"},
    .what =
        "Runs the table of the declared schedule with forward tasks, gradients "
        "of inputs and gradients of weights of the same length, and finds "
        "steps in which ranks compute nothing for a fifth of the time or more. "
        "Names the schedule with the smallest bubble that keeps no more "
        "activations.",
    .why = "Devices that wait cost as much as devices that compute.",
    .instead = "Use more micro-batches, or the schedule that the help names.",
    .bad = {.mesh = "pp:4,tp:2",
            .rules = R"(version: 1
stages: {axis: pp, schedule: 1f1b, microbatches: 8}
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
stages: {axis: pp, schedule: 1f1b, microbatches: 32}
rules:
  - match: 'weight'
    spec: [tp]
)"},
    .check = CheckBubbleLarge};

}  // namespace shardc
