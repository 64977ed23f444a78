// The step programs that are committed next to a target's plan.
#ifndef SHARDC_CLI_COMMITTED_STEP_H_
#define SHARDC_CLI_COMMITTED_STEP_H_

#include <optional>
#include <vector>

#include "model/project.h"
#include "plan/compile.h"
#include "source/finding.h"
#include "verify/step/step_report.h"

namespace shardc::cli {

// Compiles a step for each of the target's modes train, prefill and decode, and
// returns the reports of these steps. The steps have the target's batch and a
// default length. They are not run. Returns nullopt after findings.
std::optional<std::vector<verify::StepReport>> StepsToCommit(
    const Target& target, const Compiled& compiled,
    const std::optional<ModelConfig>& model, Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_COMMITTED_STEP_H_
