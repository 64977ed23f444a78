// Writes the commands and their options as JSON. This is the content of
// man/commands.json, from which the manual and the completions are generated.
#ifndef SHARDC_CLI_DESCRIBE_H_
#define SHARDC_CLI_DESCRIBE_H_

#include <string>

namespace shardc::cli {

std::string DescribeCommands();

}  // namespace shardc::cli

#endif  // SHARDC_CLI_DESCRIBE_H_
