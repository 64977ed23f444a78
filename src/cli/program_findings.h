// Compares a plan with what a traced program shows about the parameters.
#ifndef SHARDC_CLI_PROGRAM_FINDINGS_H_
#define SHARDC_CLI_PROGRAM_FINDINGS_H_

#include "cli/traced_program.h"
#include "lint/analysis/topic.h"
#include "lint/select.h"
#include "plan/compile.h"

namespace shardc::cli {

// Returns the selected findings about specs that the program contradicts, with
// the lines of the user's code. They have the codes of the lints that report
// the same from names: SHD220, SHD230, SHD214, SHD215 and SHD237. Parameters
// that the program lacks, or has in another shape, are left out.
FindingSink ProgramFindings(const TracedProgram& traced,
                            const Compiled& compiled,
                            const Selection& selection);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_PROGRAM_FINDINGS_H_
