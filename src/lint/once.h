// Removes findings that other findings make redundant, and joins findings that
// have the same cause. Such findings come from several lints, or from one lint
// about many parameters.
#ifndef SHARDC_LINT_ONCE_H_
#define SHARDC_LINT_ONCE_H_

#include <vector>

#include "lint/analysis/topic.h"
#include "source/texts.h"

namespace shardc {

// Removes redundant findings. Joins findings that have the same cause, or that
// are at the same place and differ only in the parameters of their messages.
// Each set of such findings is joined into its first finding. Findings keep
// their order. `names` are the names of the plan's parameters, to which
// LintFinding::members refers. A finding names each of its members once, in the
// order of their first mention. The argument must not contain ignored or
// deselected findings: these are not printed, so they must not make others
// redundant.
std::vector<Finding> OnceEach(FindingSink findings, const Texts& names);

}  // namespace shardc

#endif  // SHARDC_LINT_ONCE_H_
