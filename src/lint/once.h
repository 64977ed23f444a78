// Joins findings with one cause, of several lints or of one lint about many
// parameters.
#ifndef SHARDC_LINT_ONCE_H_
#define SHARDC_LINT_ONCE_H_

#include <vector>

#include "lint/analysis/topic.h"

namespace shardc {

// Call it with the findings that selection and comments have left, so that no
// finding is redundant because of one that is not shown. Findings keep their
// order; findings with the same words about several parameters at one place are
// joined into the first of them.
std::vector<Finding> OnceEach(FindingSink findings);

}  // namespace shardc

#endif  // SHARDC_LINT_ONCE_H_
