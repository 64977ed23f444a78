#include "lint/analysis/step_facts.h"
#include "lint/rules/all.h"

namespace shardc {

void CheckParameterWithTwoRoles(const Facts& facts, FindingSink& sink) {
  ReportRoleFault(facts, step::RoleFault::kTwo, kParameterWithTwoRoles.code,
                  "make the pattern of one of them narrower, with `^`, `$` or "
                  "more parts of the name",
                  sink);
}

}  // namespace shardc
