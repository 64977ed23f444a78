// The committed plan against the one that the inputs give now.
#ifndef SHARDC_LINT_LOCKED_H_
#define SHARDC_LINT_LOCKED_H_

#include "lint/rules/lint.h"
#include "plan/plan.h"

namespace shardc {

// One finding for each thing that differs (mesh, modes, parameters that came,
// went or changed), at its place in the committed plan; none when the meaning
// is the same. At most `limit`, and a last one that counts the rest. Errors
// in reading the plan go to `errors`.
FindingSink CompareLocked(const Plan& plan, const SourceRef& committed,
                          Findings& errors, size_t limit = 20);

}  // namespace shardc

#endif  // SHARDC_LINT_LOCKED_H_
