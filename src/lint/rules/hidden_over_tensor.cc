// The width of activations over the tensor axis: a column-parallel layer then
// gathers it and a row-parallel one scatters, at every layer's edge.
#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"

namespace shardc {

extern const Lint kHiddenOverTensor;

namespace {

void Check(const Facts& facts, FindingSink& sink) {
  const RuleSet& rules = facts.compiled().rules;
  // The default is the same, and no statement: most models name no such axis.
  const auto& written = rules.axes.Given(AxisRule::kHiddenState);
  if (!written) return;
  const AxisGroup tensor = facts.TensorAxes(written->axes);
  if (facts.TensorParts(tensor) <= 1) return;
  LintFinding finding =
      FindingAt(kHiddenOverTensor.code,
                rules.axes_places[static_cast<size_t>(AxisRule::kHiddenState)]);
  finding.message =
      "`hidden_state`, the width of activations, is split over " +
      GroupText(tensor) +
      ", which splits heads and the MLP: it is gathered before every "
      "projection that they split, about 30 % more traffic than whole "
      "activations";
  finding.help = "write `axes: {hidden_state: []}`";
  sink.push_back(std::move(finding));
}

}  // namespace

constinit const Lint kHiddenOverTensor{
    .code = {411, "hidden-over-tensor", Level::kWarning,
             "the width of activations is split over the tensor axis"},
    .what =
        "Finds an axis rule that a file writes for the hidden state on a "
        "tensor parallel axis. The default of that rule is the tensor "
        "parallel axis too: a model that names EMBED in its activations "
        "does well to write the rule.",
    .why =
        "Column-parallel projections need the whole width, so what one layer "
        "scatters the next one gathers. A step of Llama with whole "
        "activations between blocks moves about a quarter less.",
    .instead = "Leave the width whole; split the sequence to save memory.",
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
    .check = Check};

}  // namespace shardc
