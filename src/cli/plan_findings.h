// The findings of compiling a plan. A plan with errors is not written. With
// --keep-going, it is written if it has only errors of PlanFindings(), but not
// if it has errors of StageFindings().
#ifndef SHARDC_CLI_PLAN_FINDINGS_H_
#define SHARDC_CLI_PLAN_FINDINGS_H_

#include <optional>
#include <span>

#include "cli/command.h"
#include "cost/inputs.h"
#include "model/project.h"
#include "plan/compile.h"
#include "plan/read.h"
#include "source/finding.h"

namespace shardc::cli {

// Returns the errors about illegal specs. If the policy makes unmatched
// parameters an error, also returns the errors about these.
Findings PlanFindings(const Compiled& compiled);

// Returns the code of the lint that reports a spec that is illegal for this
// reason.
const Code& CodeOf(Reason reason);

// Returns whether a spec of a plan that was read from a file is illegal, as in
// plans that `plan --keep-going` writes. If so, adds an error about the first
// such spec, with the code of the lint for this problem.
bool HasIllegalSpec(const ReadPlan& plan, Findings& findings);
// Returns whether the plan divides each of several parts of a dimension in this
// mode (model/dim_parts.h), and adds a finding (inexpressible) that names the
// first such parameter. A compiled program shards arrays in one range for each
// device, so the plan's shardings cannot be compared with the program's.
bool HasDividedParts(const ReadPlan& plan, Mode mode, Findings& findings);

// Returns errors if the mesh axes that shard the query or KV heads do not
// divide the number of these heads, as tp of size 8 does not divide 12 heads.
// Returns no errors if the policy for illegal specs drops these axes.
Findings HeadFindings(const Compiled& compiled, const cost::CostInputs& work);

// Prints the errors of HeadFindings() in all modes as notes, each once. It is
// for `verify step`: this command only leaves out such axes when it shards
// heads. `cost` and `fit` report them as errors.
void PrintUnevenHeads(const Compiled& compiled,
                      const std::optional<ModelConfig>& model,
                      std::span<const Mode> modes, const Common& common);

// Returns the findings that state why the declared stages are refused.
Findings StageFindings(const Compiled& compiled);

// Returns findings about rules that match nothing because their file has
// another separator than the names of parameters.
Findings SeparatorFindings(const Compiled& compiled);

// Returns at most one finding, which reports that most of the model is
// replicated on every device. If several lints report this, the finding of the
// lint nearest to the cause is returned. It is an error if the rules use no
// axis of the mesh (lint/analysis/whole_model.h), and a warning otherwise. The
// settings and the comments of rules files can ignore the error (SHD207), or
// change its level.
Findings ReplicatedFindings(const Target& target, const Compiled& compiled,
                            const LintSettings& settings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_PLAN_FINDINGS_H_
