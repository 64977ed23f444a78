// Checks that the tensors of a model have the shapes of their roles, and that
// no role is missing or unused.
#ifndef SHARDC_STEP_ROLE_CHECKS_H_
#define SHARDC_STEP_ROLE_CHECKS_H_

#include "step/role_tree.h"

namespace shardc::step {

// Appends the problems that it finds to `tree.roles.problems`. The rows of the
// manifest for each role, and the sizes of dimensions, must already be known.
void CheckRoles(RoleTree& tree);

}  // namespace shardc::step

#endif  // SHARDC_STEP_ROLE_CHECKS_H_
