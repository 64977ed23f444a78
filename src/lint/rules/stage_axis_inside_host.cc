// Reports a stage axis (the mesh axis of the pipeline's stages) that is inside
// a host while another axis crosses hosts. Stages send the fewest bytes, so the
// stage axis should cross hosts. Devices are numbered with the last axis
// fastest, and each host has consecutive numbers, so the last axes are inside a
// host. For example:
//
//   fsdp 8, pp 4 on hosts of 8 devices: pp is inside a host, and a group along
//   fsdp has two devices of each of four hosts
#include <algorithm>
#include <string>

#include "lint/analysis/facts.h"
#include "lint/analysis/hosts.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/stages.h"
#include "lint/rules/lint.h"

namespace shardc {

extern const Lint kStageAxisInsideHost;

namespace {

bool IsUsed(const Facts& facts, const std::string& axis) {
  const auto& layouts = facts.plan().layouts;
  return std::any_of(
      layouts.begin(), layouts.end(), [&](const ParamLayout& layout) {
        const Spec& spec = layout.modes.front().spec;
        return std::any_of(
            spec.begin(), spec.end(), [&](const AxisGroup& axes) {
              return std::find(axes.begin(), axes.end(), axis) != axes.end();
            });
      });
}

void CheckStageAxisInsideHost(const Facts& facts, FindingSink& sink) {
  const Mesh& mesh = facts.mesh();
  const int64_t per_host = DevicesPerHost(mesh);
  const auto stages = mesh.Find(StageAxis(facts));
  if (!stages || mesh.processes <= 1 || mesh.axes[*stages].size <= 1 ||
      CrossesHosts(mesh, *stages)) {
    return;
  }
  for (size_t i = 0; i < *stages; ++i) {
    const MeshAxis& axis = mesh.axes[i];
    if (!CrossesHosts(mesh, i) || !IsUsed(facts, axis.name)) continue;
    // If a tensor-parallel axis crosses hosts but could be inside a host,
    // another lint reports that.
    if (per_host % axis.size == 0 && !facts.TensorAxes({axis.name}).empty()) {
      continue;
    }
    LintFinding finding =
        FindingAt(kStageAxisInsideHost.code, StagesPlace(facts));
    finding.message = "the stages are over " + Quoted(mesh.axes[*stages].name) +
                      ", which is inside a host, and collectives over " +
                      Quoted(axis.name) + " cross hosts";
    finding.help = "write " + Quoted(mesh.axes[*stages].name) + " before " +
                   Quoted(axis.name) +
                   " in the mesh: a pipeline sends least, so that it can "
                   "cross hosts";
    sink.push_back(std::move(finding));
  }
}

}  // namespace

constinit const Lint kStageAxisInsideHost{
    .code = {252, "stage-axis-inside-host", Level::kNote,
             "the axis of the stages is inside a host, and another axis "
             "crosses hosts"},
    .what =
        "Finds declared stages over an axis that is inside a host, where an "
        "axis that specs use comes before it in the mesh and crosses hosts.",
    .why =
        "A stage sends its activations to the next one once for each "
        "micro-batch, which is far less than what collectives over other axes "
        "send, and the network within a host is the fastest.",
    .instead = "Write the axis of the stages first in the mesh.",
    .bad = {.mesh = R"(axes: {fsdp: 8, pp: 4}
processes: 4
)",
            .rules = R"(version: 1
stages: {axis: pp, assign: even}
rules:
  - match: 'weight'
    spec: [fsdp]
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers.0.down_proj.weight": {"shape": [64, 1024], "dtype": "BF16"},
  "layers.1.down_proj.weight": {"shape": [64, 1024], "dtype": "BF16"},
  "layers.2.down_proj.weight": {"shape": [64, 1024], "dtype": "BF16"},
  "layers.3.down_proj.weight": {"shape": [64, 1024], "dtype": "BF16"}}}
)"},
    .good = {.mesh = R"(axes: {pp: 4, fsdp: 8}
processes: 4
)"},
    .check = CheckStageAxisInsideHost};

}  // namespace shardc
