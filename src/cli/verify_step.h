// `shardc verify --step`: the whole step of a model.
#ifndef SHARDC_CLI_VERIFY_STEP_H_
#define SHARDC_CLI_VERIFY_STEP_H_

#include <cstddef>
#include <functional>

#include "cli/verify_request.h"

namespace shardc::cli {

Options OptionsOfStep(VerifyFlags& flags);
// Says how many of the faults are tried.
using FaultProgress = std::function<void(size_t done, size_t all)>;
int RunStepSelfTestCommand(const Common& common, const FaultProgress& tell,
                           Findings& findings);
int RunVerifyStep(const VerifyFlags& flags, const Common& common,
                  Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_VERIFY_STEP_H_
