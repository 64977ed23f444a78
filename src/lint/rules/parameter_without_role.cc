#include "lint/analysis/step_facts.h"
#include "lint/rules/all.h"

namespace shardc {

void CheckParameterWithoutRole(const Facts& facts, FindingSink& sink) {
  ReportRoleFault(facts, step::RoleFault::kNone, kParameterWithoutRole.code,
                  "give it a role under `params` of the `model:` section, or "
                  "name it under `skip`",
                  sink);
}

}  // namespace shardc
