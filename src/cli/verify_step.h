// Functions that several commands share to lower a complete step of a model.
// The commands are `shardc verify step`, `shardc explain --step`, and `shardc
// check`, which compares the step with a committed one.
#ifndef SHARDC_CLI_VERIFY_STEP_H_
#define SHARDC_CLI_VERIFY_STEP_H_

#include <cstdint>
#include <optional>

#include "model/project.h"
#include "plan/compile.h"
#include "source/finding.h"
#include "verify/step/step_report.h"

namespace shardc::cli {

// Returns whether a rules file has a `model:` section, which describes the
// model. If none has, adds a finding.
bool HasDescription(const Compiled& compiled, Findings& findings);
// Returns a request for a step at the sizes of the model, not at the smaller
// sizes of a proof. If `batch` is not set, the batch is two samples per device.
verify::StepRequest UsualStep(const Compiled& compiled,
                              const std::optional<ModelConfig>& model,
                              std::optional<int64_t> batch);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_VERIFY_STEP_H_
