#include <string>

#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/stages.h"
#include "lint/rules/lint.h"
#include "source/wording.h"

namespace shardc {

extern const Lint kStagesUneven;

namespace {

void CheckStagesUneven(const Facts& facts, FindingSink& sink) {
  const auto uneven = UnevenStagesOf(facts);
  if (!uneven) return;
  std::string layers;
  for (const int64_t one : uneven->better) {
    layers += (layers.empty() ? "" : ", ") + std::to_string(one);
  }
  LintFinding finding = FindingAt(kStagesUneven.code, StagesPlace(facts));
  finding.message =
      "stage " + std::to_string(uneven->stage) + " with " +
      Counted(uneven->layers, "layer") + " takes " + TimesText(uneven->times) +
      " times the mean of the stages, and every rank waits for it";
  finding.help = "write `assign: [" + layers +
                 "]`, whose longest stage takes " +
                 TimesText(uneven->better_times) + " times the mean";
  sink.push_back(std::move(finding));
}

}  // namespace

constinit const Lint kStagesUneven{
    .code = {246, "stages-uneven", Level::kWarning,
             "a stage of the pipeline takes clearly longer than the others"},
    .needs = kNeedsShapes,
    .what =
        "Finds declared stages of which one takes at least 1.15 times the mean "
        "of the multiplications of a token, where another division of the "
        "layers shortens it. The head counts as the layers that its matrix is "
        "worth.",
    .why =
        "A pipeline runs at the speed of its longest stage: the other ranks "
        "wait for it in every micro-batch.",
    .instead =
        "Give the stage with the head fewer layers, or leave out `assign`.",
    .bad = {.mesh = "pp:4,tp:2",
            .rules = R"(version: 1
stages: {axis: pp, assign: even}
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
stages: {axis: pp, assign: cost}
rules:
  - match: 'weight'
    spec: [tp]
)"},
    .check = CheckStagesUneven};

}  // namespace shardc
