// Without a batch the schedule has the micro-batches of the declaration, or
// about two for each rank, which changes no rank's layers.
#include "target/stages.h"

#include "parse/stages_read.h"

namespace shardc {

std::optional<PlannedStages> PlanTargetStages(
    const Target& target, const Compiled& compiled, const ModelConfig* config,
    const Boundary& boundary, Findings& findings, std::string* axis) {
  const auto declared =
      DeclaredStages(target, compiled.rules, boundary, findings);
  if (!declared) return std::nullopt;
  if (axis != nullptr) *axis = declared->axis;
  const auto request =
      DeclaredRequest(*declared, compiled.mesh, std::nullopt, findings);
  if (!request) return std::nullopt;
  return PlanStages(compiled, config, *request, findings);
}

}  // namespace shardc
