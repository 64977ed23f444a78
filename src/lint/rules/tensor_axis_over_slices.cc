#include <string>

#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"

namespace shardc {
namespace {

// Returns the first axis that could span the slices: it is not tensor parallel,
// and its size is a multiple of the number of slices. Returns an empty text if
// there is no such axis.
std::string OtherAxis(const Facts& facts) {
  const Mesh& mesh = facts.mesh();
  for (const MeshAxis& axis : mesh.axes) {
    if (axis.size % mesh.slices == 0 && facts.TensorAxes({axis.name}).empty()) {
      return axis.name;
    }
  }
  return {};
}

}  // namespace

void CheckTensorAxisOverSlices(const Facts& facts, FindingSink& sink) {
  const Mesh& mesh = facts.mesh();
  for (size_t i = 0; i < mesh.dcn.size() && i < mesh.axes.size(); ++i) {
    if (mesh.dcn[i] <= 1 || facts.TensorAxes({mesh.axes[i].name}).empty()) {
      continue;
    }
    LintFinding finding =
        FindingAt(kTensorAxisOverSlices.code, facts.MeshPlace());
    finding.message = "tensor parallel axis " + Quoted(mesh.axes[i].name) +
                      " spans " + std::to_string(mesh.dcn[i]) +
                      " slices: every layer waits for the network between"
                      " them";
    finding.help = "let a data parallel axis span the slices";
    const std::string axis = OtherAxis(facts);
    if (!axis.empty()) {
      finding.help +=
          ": `dcn: {" + axis + ": " + std::to_string(mesh.slices) + "}`";
    }
    sink.push_back(std::move(finding));
  }
}

}  // namespace shardc
