// Turns the problems that legalization found in specs into findings. Several
// lints share this code, each for one kind of problem.
#ifndef SHARDC_LINT_ANALYSIS_LEGALITY_H_
#define SHARDC_LINT_ANALYSIS_LEGALITY_H_

#include <functional>
#include <string>

#include "legalize/legalize.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/topic.h"

namespace shardc {

// Reports the problems with this reason that legalization found in specs, one
// finding for each group and each distinct problem. `observe` returns the
// message. Its arguments are the group, its layout in the mode with the
// problem, and the problem. The entries of a spec beyond the rank are one
// problem, of which `observe` gets the first entry. If the spec is illegal, the
// finding has the level of `code`. If the policy of the rules file corrected
// the spec, the finding is at most a warning, and its message states the cost
// of the correction.
void ReportEdits(
    const Facts& facts, const Code& code, Reason reason,
    const std::function<std::string(const ParameterGroup&, const ModeLayout&,
                                    const Edit&)>& observe,
    const std::string& help, FindingSink& sink);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_LEGALITY_H_
