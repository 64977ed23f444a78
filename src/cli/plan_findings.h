// The findings of compiling a plan. A plan with errors is not written. With
// --keep-going, a plan with errors of PlanFindings() is written, but never a
// plan with errors of StageFindings().
#ifndef SHARDC_CLI_PLAN_FINDINGS_H_
#define SHARDC_CLI_PLAN_FINDINGS_H_

#include <optional>
#include <span>

#include "cli/command.h"
#include "cost/inputs.h"
#include "plan/compile.h"
#include "source/finding.h"

namespace shardc::cli {

// Returns the errors about illegal specs, and about parameters that no rule
// matches if the policy makes that an error.
Findings PlanFindings(const Compiled& compiled);

// Returns the errors about heads that the axes of attention do not divide.
// Returns none if the policy for illegal specs drops these axes.
Findings HeadFindings(const Compiled& compiled, const cost::CostInputs& work);

// For commands that leave out axes that do not divide the heads: prints the
// messages of HeadFindings() in any of the modes as notes. `cost` and `fit`
// report such axes as errors.
void PrintUnevenHeads(const Compiled& compiled,
                      const std::optional<ModelConfig>& model,
                      std::span<const Mode> modes, const Common& common);

// Returns the findings that state why the declared stages are refused.
Findings StageFindings(const Compiled& compiled);

// Returns findings about rules that match nothing because their file has the
// other separator than the parameters' names.
Findings SeparatorFindings(const Compiled& compiled);

// Returns one warning if most of the model is replicated on every device. If
// several lints report this, the warning is that of the lint nearest to the
// cause.
Findings ReplicatedFindings(const Compiled& compiled);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_PLAN_FINDINGS_H_
