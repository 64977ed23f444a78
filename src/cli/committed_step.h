// The committed step program of a target: what its steps are now.
#ifndef SHARDC_CLI_COMMITTED_STEP_H_
#define SHARDC_CLI_COMMITTED_STEP_H_

#include <optional>
#include <vector>

#include "model/project.h"
#include "plan/compile.h"
#include "source/finding.h"
#include "verify/step/step_report.h"

namespace shardc::cli {

// A report of each of the target's modes that are steps, at its batch and the
// usual length, not run. Nothing after findings.
std::optional<std::vector<verify::StepReport>> StepsToCommit(
    const Target& target, const Compiled& compiled,
    const std::optional<ModelConfig>& model, Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_COMMITTED_STEP_H_
