// `shardc verify --step`: the whole step of a model.
#ifndef SHARDC_CLI_VERIFY_STEP_H_
#define SHARDC_CLI_VERIFY_STEP_H_

#include "cli/verify_request.h"

namespace shardc::cli {

Options OptionsOfStep(VerifyFlags& flags);
int RunVerifyStep(const VerifyFlags& flags, const Common& common,
                  Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_VERIFY_STEP_H_
