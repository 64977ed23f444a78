#include <algorithm>
#include <string>
#include <utility>

#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/step_facts.h"
#include "lint/rules/lint.h"
#include "lint/rules/step_example.h"
#include "model/axis_rules.h"
#include "step/validate.h"

namespace shardc {

extern const Lint kStepNotLowered;

namespace {

void Report(Mode mode, Place place, const std::string& message,
            FindingSink& sink) {
  LintFinding finding = FindingAt(kStepNotLowered.code, std::move(place));
  finding.message = "the step of the model in " + std::string(ModeName(mode)) +
                    " has no program: " + message;
  finding.help = "`shardc verify step --mode " + std::string(ModeName(mode)) +
                 "` prints why";
  sink.push_back(std::move(finding));
}

void CheckStepNotLowered(const Facts& facts, FindingSink& sink) {
  const StepFacts* const step = facts.Step();
  if (step == nullptr) return;
  if (!step->refusals().empty()) {
    const StepRefusal& first = step->refusals().front();
    Report(first.mode, first.place, first.message, sink);
  }
  for (const Mode mode : {Mode::kTrain, Mode::kPrefill, Mode::kDecode}) {
    const ModeStep* const of = step->Find(mode);
    if (of == nullptr) continue;
    const auto faults =
        step::Validate(of->graph(), of->program(), of->step.sizes);
    if (faults.empty()) continue;
    const auto op = static_cast<size_t>(std::max(faults.front().op, 0));
    Report(mode, step->description().stacks[0].repeat.place,
           StepOpName(of->graph().ops[op]) + ": " + faults.front().message,
           sink);
  }
}

}  // namespace

constinit const Lint kStepNotLowered{
    .code = {240, "step-not-lowered", Level::kNote,
             "the model's step has no program under this plan"},
    .needs = kNeedsShapes | kNeedsModel,
    .what =
        "Finds models whose `model:` section gives no step under the plan: a "
        "line is undefined, a dimension of the step does not divide by its "
        "axes, or a partial value leaves the step.",
    .why =
        "The collectives of such a step are unknown, and lints that need them "
        "report nothing.",
    .instead = "Correct what the message names.",
    .bad = {.mesh = "fsdp:2,tp:2",
            .rules = R"(version: 1
rules:
  - match: 'embed$'
    spec: [VOCAB, FSDP]
)" SHARDC_EXAMPLE_TABLE_SECTION R"(    embed: ['embed$', [v, d]]
)" SHARDC_EXAMPLE_TABLE_STEP R"(    - logits = linaer(x, embed) @logits
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "embed": {"shape": [1024, 256], "dtype": "BF16"}}}
)",
            .model = SHARDC_EXAMPLE_TABLE_CONFIG},
    .good = {.rules = R"(version: 1
rules:
  - match: 'embed$'
    spec: [VOCAB, FSDP]
)" SHARDC_EXAMPLE_TABLE_SECTION R"(    embed: ['embed$', [v, d]]
)" SHARDC_EXAMPLE_TABLE_STEP R"(    - logits = linear(x, embed) @logits
)"},
    .check = CheckStepNotLowered};

}  // namespace shardc
