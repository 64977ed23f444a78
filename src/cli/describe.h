// The commands and what they take, as JSON: man/commands.json holds it, and
// manual and completions are made from that file.
#ifndef SHARDC_CLI_DESCRIBE_H_
#define SHARDC_CLI_DESCRIBE_H_

#include <string>

namespace shardc::cli {

std::string DescribeCommands();

}  // namespace shardc::cli

#endif  // SHARDC_CLI_DESCRIBE_H_
