// `shardc search --program`: searches the mesh of a traced program.
#ifndef SHARDC_CLI_SEARCH_PROGRAM_H_
#define SHARDC_CLI_SEARCH_PROGRAM_H_

#include "cli/command.h"
#include "cli/search_inputs.h"
#include "source/finding.h"

namespace shardc::cli {

int SearchProgram(const SearchFlags& flags, const Common& common,
                  Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_SEARCH_PROGRAM_H_
