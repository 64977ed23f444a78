// Explains words on the command line that are no command and no option's value.
#ifndef SHARDC_CLI_STRAY_H_
#define SHARDC_CLI_STRAY_H_

#include <span>
#include <string>
#include <string_view>

#include "cli/command.h"

namespace shardc::cli {

// The message and the help for a word that `command` does not accept. For a
// misspelt option, the help names the nearest option. For a file, it names the
// option that accepts such files.
struct StrayWord {
  std::string message;
  std::string help;
};
// The first word is not a command. The help names the command of the same
// purpose or the nearest one.
StrayWord AboutCommand(const std::string& word);
StrayWord AboutStray(const std::string& word, const Command& command,
                     std::span<const Option> options);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_STRAY_H_
