#include <string>

#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"

namespace shardc {

extern const Lint kTensorAxisOverSlices;

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

}  // namespace

constinit const Lint kTensorAxisOverSlices{
    .code = {303, "tensor-axis-over-slices", Level::kWarning,
             "a tensor parallel axis spans several slices"},
    .what =
        "Finds meshes of several slices in which a tensor parallel axis spans "
        "the slices.",
    .why =
        "The network between slices is the slowest there is, and tensor "
        "parallel collectives run several times in each layer.",
    .instead = "Let a data parallel axis span the slices.",
    .bad = {.mesh = R"(axes: {dp: 2, tp: 4}
slices: 2
dcn: {tp: 2}
)",
            .rules = R"(version: 1
rules:
  - match: 'up/kernel'
    spec: [null, TP]
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/up/kernel": {"shape": [1024, 4096], "dtype": "BF16"}}}
)"},
    .good = {.mesh = R"(axes: {dp: 2, tp: 4}
slices: 2
dcn: {dp: 2}
)"},
    .check = CheckTensorAxisOverSlices};

}  // namespace shardc
