// Joins findings that have one cause: findings of several lints, or of one lint
// about many parameters.
#ifndef SHARDC_LINT_ONCE_H_
#define SHARDC_LINT_ONCE_H_

#include <vector>

#include "lint/analysis/topic.h"

namespace shardc {

// Removes redundant findings. Joins findings that have one cause, or that are
// at one place and whose messages differ only in the parameters, into the first
// such finding. Findings keep their order. The argument must not contain
// findings that are deselected or ignored, because they would make others
// redundant without being shown.
std::vector<Finding> OnceEach(FindingSink findings);

}  // namespace shardc

#endif  // SHARDC_LINT_ONCE_H_
