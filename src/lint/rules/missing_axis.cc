// Reports a mesh axis that rules name and the mesh lacks. All rules that name
// the axis share one finding, which is placed at the first of them. The usual
// cause is that the axis has another name in the mesh, or that an axis rule is
// wrong. Specs of attention tensors are reported in separate findings.
//
//   three rules name `model`, and the mesh has dp and tp
//     ->  one finding at the first rule, with labels at the other two
#include <string>
#include <vector>

#include "lint/analysis/attention_edits.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/legality.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"

namespace shardc {

extern const Lint kMissingAxis;

namespace {

constexpr const char* kMissingHelp =
    "add the axis to the mesh, or change the axis rule";

std::string ObserveMissingAxis([[maybe_unused]] const Facts& facts,
                               const ParameterGroup& group, const Edit& edit) {
  return "the spec of " + ParametersText(facts, group) + " names axis " +
         Quoted(edit.axis) + ", which the mesh (" + MeshText(facts.mesh()) +
         ") lacks";
}

void CheckMissingAxis(const Facts& facts, FindingSink& sink) {
  // The missing axis of each finding that ReportEdits adds.
  std::vector<std::string> axes;
  const size_t before = sink.size();
  ReportEdits(
      facts, kMissingAxis.code, Reason::kMissingAxis,
      [&](const ParameterGroup& group, const ModeLayout&, const Edit& edit) {
        axes.push_back(edit.axis);
        return ObserveMissingAxis(facts, group, edit);
      },
      kMissingHelp, sink);
  for (size_t i = 0; i < axes.size(); ++i) {
    LintFinding& finding = sink[before + i];
    const bool corrected = finding.level != kMissingAxis.code.level;
    finding.several = {axes[i], "the specs of ",
                       " name axis " + Quoted(axes[i]) + ", which the mesh (" +
                           MeshText(facts.mesh()) + ") lacks" +
                           (corrected ? "; the policy drops it" : "")};
  }
  ReportAttentionEdits(
      facts, kMissingAxis.code, Reason::kMissingAxis,
      [&](const std::string& tensors, const Edit& edit) {
        return "the specs of " + tensors + " name axis " + Quoted(edit.axis) +
               ", which the mesh (" + MeshText(facts.mesh()) + ") lacks";
      },
      kMissingHelp, sink);
}

}  // namespace

constinit const Lint kMissingAxis{
    .code = {201, "missing-axis", Level::kError,
             "a spec names an axis that the mesh lacks"},
    .what =
        "Finds specs of parameters and attention tensors that resolve to an "
        "axis which is not in the mesh and is none of the parallelism axes. An "
        "undefined name in a spec is reported as SHD028.",
    .why =
        "The parameter cannot be sharded. A policy that corrects the spec "
        "replicates the dimension.",
    .instead = "Use an axis of the mesh.",
    .bad = {.mesh = "fsdp:2,tp:4",
            .rules = R"(version: 1
axes: {mlp_intermediate: model}
rules:
  - match: 'up/kernel'
    spec: [FSDP, MLP_INTERMEDIATE]
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/up/kernel": {"shape": [1024, 5120], "dtype": "BF16"}}}
)"},
    .good = {.rules = R"(version: 1
axes: {mlp_intermediate: tp}
rules:
  - match: 'up/kernel'
    spec: [FSDP, MLP_INTERMEDIATE]
)"},
    .check = CheckMissingAxis};

}  // namespace shardc
