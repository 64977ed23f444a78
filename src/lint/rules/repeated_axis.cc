#include "lint/analysis/attention_edits.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/legality.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"

namespace shardc {

extern const Lint kRepeatedAxis;

namespace {

constexpr const char* kRepeatedHelp =
    "use another axis, or none, for one of the two dimensions";

std::string ObserveRepeatedAxis(const Facts& facts, const ParameterGroup& group,
                                const ModeLayout& mode, const Edit& edit) {
  return "axis " + Quoted(edit.axis) + " is used twice in the spec of " +
         ParametersText(facts, group) + ", " + SpecText(mode.resolved);
}

void CheckRepeatedAxis(const Facts& facts, FindingSink& sink) {
  ReportEdits(
      facts, kRepeatedAxis.code, Reason::kRepeatedAxis,
      [&](const ParameterGroup& group, const ModeLayout& mode,
          const Edit& edit) {
        return ObserveRepeatedAxis(facts, group, mode, edit);
      },
      kRepeatedHelp, sink);
  ReportAttentionEdits(
      facts, kRepeatedAxis.code, Reason::kRepeatedAxis,
      [&](const std::string& tensors, const Edit& edit) {
        return "axis " + Quoted(edit.axis) + " is used twice in the specs of " +
               tensors;
      },
      kRepeatedHelp, sink);
}

}  // namespace

constinit const Lint kRepeatedAxis{
    .code = {203, "repeated-axis", Level::kError,
             "an axis splits two dimensions of one tensor"},
    .what =
        "Finds specs of parameters and attention tensors in which two names "
        "resolve to the same axis. A mesh axis that is written twice is "
        "reported as SHD027.",
    .why =
        "A device has one coordinate along an axis, so that the axis can split "
        "only one dimension.",
    .instead = "Use the axis for one dimension.",
    .bad = {.mesh = "fsdp:2,tp:4",
            .rules = R"(version: 1
rules:
  - match: 'up/kernel'
    spec: [EMBED, MLP_INTERMEDIATE]
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/up/kernel": {"shape": [1024, 5120], "dtype": "BF16"}}}
)"},
    .good = {.rules = R"(version: 1
rules:
  - match: 'up/kernel'
    spec: [FSDP, MLP_INTERMEDIATE]
)"},
    .check = CheckRepeatedAxis};

}  // namespace shardc
