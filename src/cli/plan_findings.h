// What keeps a plan from being written, as findings.
#ifndef SHARDC_CLI_PLAN_FINDINGS_H_
#define SHARDC_CLI_PLAN_FINDINGS_H_

#include "plan/compile.h"
#include "source/finding.h"

namespace shardc::cli {

// Unmatched parameters (under policy error) and illegal specs, one finding
// for each kind of parameter.
Findings PlanFindings(const Compiled& compiled);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_PLAN_FINDINGS_H_
