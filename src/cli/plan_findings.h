// What keeps a plan from being written, as findings.
#ifndef SHARDC_CLI_PLAN_FINDINGS_H_
#define SHARDC_CLI_PLAN_FINDINGS_H_

#include "plan/compile.h"
#include "source/finding.h"

namespace shardc::cli {

// Unmatched parameters (under policy error) and illegal specs, one finding
// for each kind of parameter.
Findings PlanFindings(const Compiled& compiled);

// Rules that match nothing because of their file's separator.
Findings SeparatorFindings(const Compiled& compiled);

// What is to be said where most of the model lies whole on every device: one
// warning, of the lint that comes nearest to the cause.
Findings WholeFindings(const Compiled& compiled);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_PLAN_FINDINGS_H_
