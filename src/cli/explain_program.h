// Explains what a compiled program does with one parameter.
#ifndef SHARDC_CLI_EXPLAIN_PROGRAM_H_
#define SHARDC_CLI_EXPLAIN_PROGRAM_H_

#include <cstddef>

#include "cli/command.h"
#include "model/axis_rules.h"
#include "plan/compile.h"
#include "source/finding.h"

namespace shardc::cli {

// Prints the collectives of the parameter and of its gradient in a compiled
// program. Also prints whether the program shards the parameter as
// the plan does. Returns the exit status.
int ExplainProgram(const SourceRef& source, const Compiled& compiled,
                   size_t param, const Common& common, Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_EXPLAIN_PROGRAM_H_
