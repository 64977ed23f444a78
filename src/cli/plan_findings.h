// The findings of compiling a plan. A plan with errors is not written. The
// option --keep-going overrides the errors of PlanFindings(), but not the
// errors of StageFindings().
#ifndef SHARDC_CLI_PLAN_FINDINGS_H_
#define SHARDC_CLI_PLAN_FINDINGS_H_

#include <optional>
#include <span>

#include "cli/command.h"
#include "cost/inputs.h"
#include "plan/compile.h"
#include "source/finding.h"

namespace shardc::cli {

// Returns the errors about parameters that no rule matches (if that is an error
// by policy) and about illegal specs.
Findings PlanFindings(const Compiled& compiled);

// Returns the errors about heads that the axes of attention do not divide.
// There are none if the policy for illegal specs drops these axes.
Findings HeadFindings(const Compiled& compiled, const cost::CostInputs& work);

// Prints the messages of HeadFindings() in any of the modes as notes, for
// commands that leave out axes that do not divide the heads. `cost` and `fit`
// report such axes as errors.
void PrintUnevenHeads(const Compiled& compiled,
                      const std::optional<ModelConfig>& model,
                      std::span<const Mode> modes, const Common& common);

// Returns the findings that state why the declared stages are refused.
Findings StageFindings(const Compiled& compiled);

// Returns the findings about rules that match nothing because of their file's
// separator.
Findings SeparatorFindings(const Compiled& compiled);

// Returns one warning if most of the model is replicated on every device. Of
// several lints, the lint nearest to the cause gives the warning.
Findings ReplicatedFindings(const Compiled& compiled);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_PLAN_FINDINGS_H_
