// Findings that prevent a plan from being written.
#ifndef SHARDC_CLI_PLAN_FINDINGS_H_
#define SHARDC_CLI_PLAN_FINDINGS_H_

#include "plan/compile.h"
#include "source/finding.h"

namespace shardc::cli {

// Unmatched parameters (under policy error) and illegal specs, one finding per
// group of parameters.
Findings PlanFindings(const Compiled& compiled);

// Why the stages that the inputs declare are refused.
Findings StageFindings(const Compiled& compiled);

// Rules that match nothing because of their file's separator.
Findings SeparatorFindings(const Compiled& compiled);

// If most of the model is replicated on every device: one warning, of the lint
// that is nearest to the cause.
Findings ReplicatedFindings(const Compiled& compiled);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_PLAN_FINDINGS_H_
