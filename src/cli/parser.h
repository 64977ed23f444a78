// Parses the arguments of a run according to the commands' records.
#ifndef SHARDC_CLI_PARSER_H_
#define SHARDC_CLI_PARSER_H_

#include <optional>
#include <string>

#include "cli/command.h"
#include "source/finding.h"

namespace shardc::cli {

struct Parsed {
  Run run;           // null: print `text`
  std::string text;  // the text that --help or --version prints
};

// Parses the command line. Returns nullopt with findings (usage) if it has
// errors; the options in `common` that could be parsed are set in that case
// too, because the findings are printed in their format.
std::optional<Parsed> ParseArguments(int argc, char** argv, Common& common,
                                     Findings& findings);

// Returns the text that `shardc` without arguments prints: the first commands
// to try.
std::string QuickStart();

}  // namespace shardc::cli

#endif  // SHARDC_CLI_PARSER_H_
