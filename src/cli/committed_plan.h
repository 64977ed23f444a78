// The committed plan of a target: found, and told where it is not there.
#ifndef SHARDC_CLI_COMMITTED_PLAN_H_
#define SHARDC_CLI_COMMITTED_PLAN_H_

#include "model/project.h"
#include "source/finding.h"
#include "source/source.h"

namespace shardc::cli {

// Null, with a finding that names the command that writes it, where it cannot
// be read.
SourceRef ReadCommittedPlan(const Target& target, Findings& findings);
// The same of the step program.
SourceRef ReadCommittedStep(const Target& target, Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_COMMITTED_PLAN_H_
