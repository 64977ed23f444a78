// Checks that a tree's tensors have the shapes of their roles, and that no role
// is missing or unused.
#ifndef SHARDC_STEP_ROLE_CHECKS_H_
#define SHARDC_STEP_ROLE_CHECKS_H_

#include "step/role_tree.h"

namespace shardc::step {

// Appends to the tree's list of problems. Its rows and sizes must be known.
void CheckRoles(RoleTree& tree);

}  // namespace shardc::step

#endif  // SHARDC_STEP_ROLE_CHECKS_H_
