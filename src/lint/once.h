// One cause, one finding: what several lints tell, and what one lint tells of
// many parameters.
#ifndef SHARDC_LINT_ONCE_H_
#define SHARDC_LINT_ONCE_H_

#include <vector>

#include "lint/analysis/topic.h"

namespace shardc {

// To be asked of the findings that selection and comments have left, so that
// no lint falls silent for one that is not shown. Findings keep their order;
// those that say the same of several parameters at one place become the first
// of them.
std::vector<Finding> OnceEach(FindingSink findings);

}  // namespace shardc

#endif  // SHARDC_LINT_ONCE_H_
