#include <set>
#include <string>

#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"
#include "source/wording.h"

namespace shardc {

void CheckTensorAxisIdle(const Facts& facts, FindingSink& sink) {
  std::set<std::string> splits;
  bool matrices = false;
  for (const ParameterGroup& group : facts.groups()) {
    matrices = matrices || facts.Rank(group) >= 2;
    for (const ModeLayout& mode : facts.LayoutOf(group).modes) {
      for (const AxisGroup& axes : mode.resolved) {
        splits.insert(axes.begin(), axes.end());
      }
    }
  }
  splits.insert(facts.plan().placement_axes.begin(),
                facts.plan().placement_axes.end());
  if (!matrices) return;
  for (const MeshAxis& axis : facts.mesh().axes) {
    if (axis.size <= 1 || splits.count(axis.name) > 0) continue;
    if (facts.TensorAxes({axis.name}).empty()) continue;
    LintFinding finding = FindingAt(kTensorAxisIdle.code, facts.MeshPlace());
    // If nothing uses the axis, the lint unused-mesh-axis reports it instead.
    finding.unless = {UnusedAxisTopic(axis.name)};
    finding.message = "no parameter is split over the tensor parallel axis " +
                      Quoted(axis.name) + " of size " +
                      std::to_string(axis.size) + ": each of its " +
                      Counted(axis.size, "device") +
                      " holds all weights and computes all of every product";
    finding.help =
        "name the axis in the rules of projections (HEAD, MLP_INTERMEDIATE,"
        " VOCAB), or give its devices to `fsdp`";
    sink.push_back(std::move(finding));
  }
}

}  // namespace shardc
