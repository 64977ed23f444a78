// Reports problems that legalization found, for the lints about them.
#ifndef SHARDC_LINT_ANALYSIS_LEGALITY_H_
#define SHARDC_LINT_ANALYSIS_LEGALITY_H_

#include <functional>
#include <string>

#include "legalize/legalize.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/topic.h"

namespace shardc {

// Reports one finding for each group and distinct edit that has this reason,
// over all modes. `observe` returns the message from the group, the layout of
// the mode in which the edit is found, and the edit. An illegal spec has the
// code's level. If the policy corrected it, it is at most a warning, and the
// message has the cost of the correction.
void ReportEdits(
    const Facts& facts, const Code& code, Reason reason,
    const std::function<std::string(const ParameterGroup&, const ModeLayout&,
                                    const Edit&)>& observe,
    const std::string& help, FindingSink& sink);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_LEGALITY_H_
