// Declares every lint. table.h lists the lints by number. The source file of a
// lint declares only its own constant, so that adding a lint does not recompile
// the other lints.
#ifndef SHARDC_LINT_RULES_ALL_H_
#define SHARDC_LINT_RULES_ALL_H_

#include "lint/rules/lint.h"

namespace shardc {

#define SHARDC_LINT(name) extern const Lint name;
#include "lint/rules/table.h"
#undef SHARDC_LINT

}  // namespace shardc

#endif  // SHARDC_LINT_RULES_ALL_H_
