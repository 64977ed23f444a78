// Checks that the tensors of a model have the shapes of their roles, and that
// no role is missing or unused.
#ifndef SHARDC_STEP_ROLE_CHECKS_H_
#define SHARDC_STEP_ROLE_CHECKS_H_

#include "step/role_tree.h"

namespace shardc::step {

// Appends problems to `tree.roles.problems`. Rows and sizes must already be
// known.
void CheckRoles(RoleTree& tree);

}  // namespace shardc::step

#endif  // SHARDC_STEP_ROLE_CHECKS_H_
