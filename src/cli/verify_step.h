// `shardc verify --step`: the whole step of a model.
#ifndef SHARDC_CLI_VERIFY_STEP_H_
#define SHARDC_CLI_VERIFY_STEP_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "cli/ranks.h"
#include "cli/verify_request.h"
#include "model/project.h"
#include "plan/compile.h"
#include "verify/step/step_report.h"

namespace shardc::cli {

// A finding where none of the rules files describes the model.
bool HasDescription(const Compiled& compiled, Findings& findings);
// A step at real sizes; without a batch two rows a device.
verify::StepRequest UsualStep(const Compiled& compiled,
                              const std::optional<ModelConfig>& model,
                              std::optional<int64_t> batch);

Options OptionsOfStep(VerifyFlags& flags);
// A finding where one of them is given to a run without a step.
bool SuitsNoStep(const VerifyFlags& flags, Findings& findings);
// Says how many of the faults are tried.
using FaultProgress = std::function<void(size_t done, size_t all)>;
int RunStepSelfTestCommand(const Common& common, const FaultProgress& tell,
                           Findings& findings);
int RunVerifyStep(const VerifyFlags& flags, const Common& common,
                  const Ranks& ranks, Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_VERIFY_STEP_H_
