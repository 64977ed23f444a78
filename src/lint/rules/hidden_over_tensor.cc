// Reports a hidden dimension of activations that is sharded over the
// tensor-parallel axis. Every column-parallel projection then gathers the
// activations, and every row-parallel projection scatters them.
#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/stages.h"
#include "lint/analysis/step_facts.h"
#include "lint/rules/all.h"
#include "source/wording.h"

namespace shardc {
namespace {

// Reports the axis rule of the hidden dimension if it has its default value.
// This is reported only if the model's step is known and sends at least a
// hundredth fewer bytes with an unsharded hidden dimension.
void CheckDefault(const Facts& facts, FindingSink& sink) {
  const StepFacts* const step = facts.Step();
  const ModeStep* const of =
      step == nullptr ? nullptr : step->Find(Mode::kTrain);
  const AxisGroup tensor = facts.TensorAxes(
      facts.compiled().rules.axes.Value(AxisRule::kHiddenState).axes);
  if (of == nullptr || facts.TensorParts(tensor) <= 1) return;
  const auto whole = of->SentWith(
      of->step.specs, {{"resid", "EMBED", {}}, {"normed", "EMBED", {}}});
  const int64_t now = of->Sent();
  if (!whole || *whole > now - now / 100) return;
  LintFinding finding = FindingAt(kHiddenOverTensor.code, facts.MeshPlace());
  finding.level = Level::kNote;
  finding.message =
      "the hidden dimension of activations is split over " + GroupText(tensor) +
      " by default, and gathered before every projection: a step of " +
      Counted(of->inputs.batch, "row") + " of " +
      Counted(of->inputs.length, "token") + " sends " + BytesText(now) +
      " a device, " + BytesText(*whole) + " if it is unsharded" +
      AddedOverRanks(facts);
  finding.help = "write `axes: {hidden_state: []}`";
  sink.push_back(std::move(finding));
}

}  // namespace

void CheckHiddenOverTensor(const Facts& facts, FindingSink& sink) {
  const RuleSet& rules = facts.compiled().rules;
  const auto& written = rules.axes.Given(AxisRule::kHiddenState);
  if (!written) return CheckDefault(facts, sink);
  const AxisGroup tensor = facts.TensorAxes(written->axes);
  if (facts.TensorParts(tensor) <= 1) return;
  LintFinding finding =
      FindingAt(kHiddenOverTensor.code,
                rules.axes_places[static_cast<size_t>(AxisRule::kHiddenState)]);
  finding.message =
      "`hidden_state`, the hidden dimension of activations, is split over " +
      GroupText(tensor) +
      ", which splits heads and the MLP as well: every projection gathers it, "
      "about 30 % more traffic than with unsharded activations";
  finding.help = "write `axes: {hidden_state: []}`";
  sink.push_back(std::move(finding));
}

}  // namespace shardc
