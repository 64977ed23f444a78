// The commands and their options as JSON: the content of man/commands.json,
// from which manual and completions are generated.
#ifndef SHARDC_CLI_DESCRIBE_H_
#define SHARDC_CLI_DESCRIBE_H_

#include <string>

namespace shardc::cli {

std::string DescribeCommands();

}  // namespace shardc::cli

#endif  // SHARDC_CLI_DESCRIBE_H_
