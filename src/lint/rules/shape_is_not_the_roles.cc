#include "lint/analysis/facts.h"
#include "lint/analysis/step_facts.h"
#include "lint/rules/all.h"

namespace shardc {

void CheckShapeIsNotTheRoles(const Facts& facts, FindingSink& sink) {
  // If the configuration is that of another model, SHD223 reports that.
  if (!facts.misfits().empty()) return;
  ReportRoleFault(
      facts, step::RoleFault::kShape, kShapeIsNotTheRoles.code,
      "correct the role's dimensions under `params` of the `model:` "
      "section, or the configuration",
      sink);
}

}  // namespace shardc
