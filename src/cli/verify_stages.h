// The stages of a pipeline whose step `verify step` proves.
#ifndef SHARDC_CLI_VERIFY_STAGES_H_
#define SHARDC_CLI_VERIFY_STAGES_H_

#include <optional>

#include "cli/stage_flags.h"
#include "model/project.h"
#include "plan/compile.h"
#include "source/finding.h"
#include "verify/step/step_report.h"

namespace shardc::cli {

// Divides the model as `cost --stages` does, with the same findings. Returns
// nullopt after findings.
std::optional<verify::StageSettings> StagesToVerify(
    const StageFlags& flags, const Compiled& compiled,
    const std::optional<ModelConfig>& model, const verify::StepRequest& request,
    Findings& findings);

// Returns false, and adds a finding, if the request has an option that a step
// of stages does not support: one part alone, all at real sizes, several
// processes.
bool CanStage(const StageFlags& flags, const verify::StepRequest& request,
              Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_VERIFY_STAGES_H_
