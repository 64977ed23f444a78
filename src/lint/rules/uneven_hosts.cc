// Reports meshes whose model replicas cross hosts unevenly. The devices of a
// replica are those along the tensor-parallel and sequence-parallel axes. Their
// number must divide the number of devices of a host, or be a multiple of it.
//
//   24 devices on 3 hosts are 8 devices on each host, and tp 6 neither divides
//   8 nor is a multiple of 8  ->  reported
#include <algorithm>
#include <string>

#include "lint/analysis/facts.h"
#include "lint/analysis/hosts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"

namespace shardc {

void CheckUnevenHosts(const Facts& facts, FindingSink& sink) {
  const Mesh& mesh = facts.mesh();
  if (mesh.processes <= 1) return;
  const int64_t per_host = DevicesPerHost(mesh);
  const AxisRules& rules = facts.compiled().rules.axes;
  AxisGroup model = rules.Value(AxisRule::kTensorParallel).axes;
  for (const std::string& axis :
       rules.Value(AxisRule::kSequenceParallel).axes) {
    // Sequences may be sharded over the tensor-parallel axis itself, which is
    // then counted only once.
    if (std::find(model.begin(), model.end(), axis) == model.end()) {
      model.push_back(axis);
    }
  }
  const int64_t group = mesh.Parts(model).value_or(1);
  if (per_host <= 0 || group <= 1) return;
  const bool fits =
      group <= per_host ? per_host % group == 0 : group % per_host == 0;
  if (fits) return;
  LintFinding finding = FindingAt(kUnevenHosts.code, facts.MeshPlace());
  finding.message =
      "a model replica takes " + std::to_string(group) +
      " devices (tensor times sequence parallel) and a host has " +
      std::to_string(per_host) + ": replicas straddle hosts unevenly";
  finding.help = "use sizes of which one divides the other";
  sink.push_back(std::move(finding));
}

}  // namespace shardc
