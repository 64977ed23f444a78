#include "lint/analysis/attention_edits.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/legality.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"

namespace shardc {
namespace {

constexpr const char* kRepeatedHelp =
    "use another axis, or none, for one of the two dimensions";

std::string ObserveRepeatedAxis(const Facts& facts, const ParameterGroup& group,
                                const ModeLayout& mode, const Edit& edit) {
  return "axis " + Quoted(edit.axis) + " is used twice in the spec of " +
         ParametersText(facts, group) + ", " + SpecText(mode.resolved);
}

}  // namespace

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

}  // namespace shardc
