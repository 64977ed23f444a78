// Returns the texts of `--help`, wrapped at 80 columns.
#ifndef SHARDC_CLI_HELP_H_
#define SHARDC_CLI_HELP_H_

#include <string>

#include "cli/command.h"
#include "cli/option.h"

namespace shardc::cli {

// Returns the help of `shardc` itself: its options, and one line for each
// command.
std::string ProgramHelp();

// Returns the help of one command: usage, arguments, options under their
// headings, and an example. `options` are all options that the command accepts
// (see WithCommon).
std::string CommandHelp(const Command& command, const Options& options);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_HELP_H_
