// The findings of compiling a plan. A plan with errors is not written. With
// --keep-going, it is written if it has only errors of PlanFindings(), but not
// if it has errors of StageFindings().
#ifndef SHARDC_CLI_PLAN_FINDINGS_H_
#define SHARDC_CLI_PLAN_FINDINGS_H_

#include "legalize/legalize.h"
#include "model/project.h"
#include "plan/compile.h"
#include "source/finding.h"
#include "target/choose.h"

namespace shardc::cli {

// Returns the errors about illegal specs. If the policy makes unmatched
// parameters an error, also returns the errors about these.
Findings PlanFindings(const Compiled& compiled);

// Returns the code of the lint that reports a spec that is illegal for this
// reason.
const Code& CodeOf(Reason reason);

// Returns the findings that state why the declared stages are refused.
Findings StageFindings(const Compiled& compiled);

// Returns findings about rules that match nothing because their file has
// another separator than the names of parameters.
Findings SeparatorFindings(const Compiled& compiled);

// Returns at most one finding, which reports that most of the model is
// replicated on every device. If several lints report this, the finding of the
// lint nearest to the cause is returned: as an error if the rules use no axis
// of the mesh (lint/analysis/memory.h), and otherwise as a warning, which only
// names the cause if `check` reports it as an error. The settings and the
// comments of rules files can ignore these lints, or change their levels.
Findings ReplicatedFindings(const Target& target, const Compiled& compiled,
                            const LintSettings& settings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_PLAN_FINDINGS_H_
