// Declares every lint. table.h lists them by number. Each lint's file declares
// its own name, so that a new lint does not cause other lints to be recompiled.
#ifndef SHARDC_LINT_RULES_ALL_H_
#define SHARDC_LINT_RULES_ALL_H_

#include "lint/rules/lint.h"

namespace shardc {

#define SHARDC_LINT(name) extern const Lint name;
#include "lint/rules/table.h"
#undef SHARDC_LINT

}  // namespace shardc

#endif  // SHARDC_LINT_RULES_ALL_H_
