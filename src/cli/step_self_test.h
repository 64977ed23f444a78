// Runs `verify step --self-test`.
#ifndef SHARDC_CLI_STEP_SELF_TEST_H_
#define SHARDC_CLI_STEP_SELF_TEST_H_

#include "cli/command.h"
#include "source/finding.h"

namespace shardc::cli {

// Injects each fault of steps and of pipelines, and prints which faults were
// detected. Returns the exit status.
int RunStepSelfTest(const Common& common, Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_STEP_SELF_TEST_H_
