// `shardc search --all`: the table of every mesh of a number of devices.
#ifndef SHARDC_CLI_SEARCH_ALL_H_
#define SHARDC_CLI_SEARCH_ALL_H_

#include "cli/command.h"
#include "cli/search_inputs.h"
#include "source/finding.h"

namespace shardc::cli {

// Evaluates and prints every mesh, and returns the exit status.
int RunSearchAll(const SearchFlags& flags, const Common& common,
                 Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_SEARCH_ALL_H_
