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
#include "lint/rules/all.h"

namespace shardc {
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

}  // namespace

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

}  // namespace shardc
