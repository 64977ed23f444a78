// Compares a compiled program with a step program. A step program is made for
// one mesh. If the compiled program is for another mesh, a finding
// (device-count) is added. Mesh axes of size 1 are ignored. For example:
//
//   step of dp=2 pp=1 tp=4, program of dp=2 tp=4  ->  the meshes are equal
//   step of dp=4 tp=2, program of dp=2 tp=4       ->  a finding
#include "cli/compared_step.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "audit/difference.h"
#include "audit/equivalent.h"
#include "source/file.h"
#include "source/json.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

// Returns whether two meshes have the same axes in the same order. Axes of size
// 1 are ignored.
bool SameAxes(const Mesh& a, const Mesh& b) {
  const auto wide = [](const Mesh& mesh) {
    std::vector<std::pair<std::string, int64_t>> out;
    for (const MeshAxis& axis : mesh.axes) {
      if (axis.size > 1) out.emplace_back(axis.name, axis.size);
    }
    return out;
  };
  return wide(a) == wide(b);
}

}  // namespace

std::optional<audit::PlannedStep> ReadStepFile(const std::string& path,
                                               Mode mode, Findings& findings) {
  const SourceRef source = ReadSource(path, findings);
  if (source == nullptr) return std::nullopt;
  const auto document = JsonDocument::Parse(source, findings);
  if (document == nullptr) return std::nullopt;
  return audit::ReadPlannedStep(*document, ModeName(mode), findings);
}

bool CompareWithStep(const hlo::Program& program, const audit::Report& report,
                     audit::PlannedStep step, AuditText& how,
                     Findings& findings) {
  if (!SameAxes(*report.mesh, step.mesh)) {
    findings.Add(code::kDeviceCount, program.PlaceOf(program.name),
                 "the mesh of the step of `--step` is " + MeshText(step.mesh) +
                     ", and the program's is " + MeshText(*report.mesh),
                 "run `shardc verify step` for the program's mesh");
    return false;
  }
  const auto sends = audit::EquivalentOf(program, report, findings);
  if (!sends) return false;
  auto difference = audit::DifferenceOf(step, *sends, report,
                                        how.drifts.value_or(audit::Drifts()));
  how.compared = {std::move(step), std::move(difference)};
  return true;
}

}  // namespace shardc::cli
