// Words of a command line that no option takes: which was meant.
#ifndef SHARDC_CLI_STRAY_H_
#define SHARDC_CLI_STRAY_H_

#include <span>
#include <string>
#include <string_view>

#include "cli/command.h"

namespace shardc::cli {

// What to say of a word that `command` has no place for, and what to do: a
// mistyped flag gets the nearest one, a file the flag that takes such files.
struct StrayWord {
  std::string message;
  std::string help;
};
StrayWord AboutStray(const std::string& word, const Command& command,
                     std::span<const Option> options);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_STRAY_H_
