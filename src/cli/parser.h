// The arguments of a run, read as the commands' records say.
#ifndef SHARDC_CLI_PARSER_H_
#define SHARDC_CLI_PARSER_H_

#include <optional>
#include <string>

#include "cli/command.h"
#include "source/finding.h"

namespace shardc::cli {

struct Parsed {
  Run run;           // null: `text` is all that was asked for
  std::string text;  // of --help and --version
};

// Fills `common` as far as it comes. Findings (usage): nothing is to be run.
std::optional<Parsed> ParseArguments(int argc, char** argv, Common& common,
                                     Findings& findings);

// What `shardc` alone says: the first commands to try.
std::string QuickStart();

}  // namespace shardc::cli

#endif  // SHARDC_CLI_PARSER_H_
