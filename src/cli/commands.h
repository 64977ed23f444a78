// One line per command, each defined in its own file: the record, and the
// function that declares its options.
#ifndef SHARDC_CLI_COMMANDS_H_
#define SHARDC_CLI_COMMANDS_H_

#include "cli/command.h"

namespace shardc::cli {

Run DeclareSchema(CLI::App& app);

inline constexpr Command kSchemaCommand{
    "schema", "print the JSON schema of a file or an output",
    "shardc schema rules > rules.schema.json", DeclareSchema};

}  // namespace shardc::cli

#endif  // SHARDC_CLI_COMMANDS_H_
