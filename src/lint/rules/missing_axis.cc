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
#include "lint/rules/all.h"

namespace shardc {
namespace {

constexpr const char* kMissingHelp =
    "add the axis to the mesh, or change the axis rule";

std::string ObserveMissingAxis([[maybe_unused]] const Facts& facts,
                               const ParameterGroup& group, const Edit& edit) {
  return "the spec of " + ParametersText(facts, group) + " names axis " +
         Quoted(edit.axis) + ", which the mesh (" + MeshText(facts.mesh()) +
         ") lacks";
}

}  // namespace

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

}  // namespace shardc
