#include <algorithm>
#include <string>
#include <utility>

#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/step_facts.h"
#include "lint/rules/all.h"
#include "model/axis_rules.h"
#include "step/validate.h"

namespace shardc {
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

}  // namespace

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

}  // namespace shardc
