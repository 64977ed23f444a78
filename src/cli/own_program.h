// Finds the file of the running program.
#ifndef SHARDC_CLI_OWN_PROGRAM_H_
#define SHARDC_CLI_OWN_PROGRAM_H_

#include "source/finding.h"
#include "source/source.h"

namespace shardc::cli {

// Reads the file of the running program. Returns null after a finding if the
// file cannot be found or read.
SourceRef ReadOwnProgram(Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_OWN_PROGRAM_H_
