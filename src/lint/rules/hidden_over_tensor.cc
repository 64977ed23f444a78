// Reports a hidden dimension of activations that is sharded over the
// tensor-parallel axis. Every column-parallel projection then gathers the
// activations, and every row-parallel projection scatters them.
#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/stages.h"
#include "lint/analysis/step_facts.h"
#include "lint/rules/lint.h"
#include "source/wording.h"

namespace shardc {

extern const Lint kHiddenOverTensor;

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

}  // namespace

constinit const Lint kHiddenOverTensor{
    .code = {411, "hidden-over-tensor", Level::kWarning,
             "the hidden dimension of activations is split over the tensor "
             "parallel axis"},
    .what =
        "Finds an axis rule of a file that splits the hidden state over a "
        "tensor parallel axis. That is also the default of this rule, which is "
        "a note if the rules describe the model's step and it sends fewer "
        "bytes otherwise.",
    .why =
        "Column-parallel projections need the entire hidden dimension, so that "
        "what one layer scatters the next one gathers. A step of Llama with "
        "unsharded activations between blocks sends about a quarter less.",
    .instead =
        "Leave the hidden dimension unsharded; split the sequence to save "
        "memory.",
    .bad = {.mesh = "fsdp:2,tp:4",
            .rules = R"(version: 1
axes: {hidden_state: tp}
rules:
  - match: 'q_proj/kernel'
    spec: [FSDP, TP]
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/attn/q_proj/kernel": {"shape": [1024, 1024], "dtype": "BF16"}}}
)"},
    .good = {.rules = R"(version: 1
axes: {hidden_state: []}
rules:
  - match: 'q_proj/kernel'
    spec: [FSDP, TP]
)"},
    .check = CheckHiddenOverTensor};

}  // namespace shardc
