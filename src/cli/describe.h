// Writes the commands and their options as JSON, the content of
// man/commands.json. The manual and the completions are generated from it.
#ifndef SHARDC_CLI_DESCRIBE_H_
#define SHARDC_CLI_DESCRIBE_H_

#include <string>

namespace shardc::cli {

std::string DescribeCommands();

}  // namespace shardc::cli

#endif  // SHARDC_CLI_DESCRIBE_H_
