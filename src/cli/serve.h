// `shardc search --serve`: finds how a number of devices serves a model.
#ifndef SHARDC_CLI_SERVE_H_
#define SHARDC_CLI_SERVE_H_

#include <string>

#include "cli/command.h"
#include "cli/search_inputs.h"
#include "source/finding.h"

namespace shardc::cli {

// Searches layouts, proves and writes the best, and returns the exit status.
int RunServe(const SearchFlags& flags, SearchInputs& inputs,
             const Common& common, Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_SERVE_H_
