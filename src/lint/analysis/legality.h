// Reports problems that legalization found, for the lints about them.
#ifndef SHARDC_LINT_ANALYSIS_LEGALITY_H_
#define SHARDC_LINT_ANALYSIS_LEGALITY_H_

#include <functional>
#include <string>

#include "legalize/legalize.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/topic.h"

namespace shardc {

// Reports the problems in specs (edits, corrected or not) that have this
// reason, one finding for each group and each distinct edit. `observe` returns
// the message for the group, the layout of the edit's mode, and the edit. If
// the spec is illegal, the finding has the code's level. If the policy
// corrected the spec, the finding is at most a warning, and its message states
// the cost of the correction.
void ReportEdits(
    const Facts& facts, const Code& code, Reason reason,
    const std::function<std::string(const ParameterGroup&, const ModeLayout&,
                                    const Edit&)>& observe,
    const std::string& help, FindingSink& sink);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_LEGALITY_H_
