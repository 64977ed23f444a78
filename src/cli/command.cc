// Appends the options that all commands have to a command's own options. Only a
// command with several output formats gets the option `--format`.
#include <utility>

#include "cli/command.h"

namespace shardc::cli {

Options WithCommon(Options own, const Command& command, Common& common) {
  Options options = std::move(own);
  Options every = {{.name = "--quiet",
                    .to = &common.quiet,
                    .help = "print only errors on stderr",
                    .letter = 'q'},
                   {.name = "--color",
                    .to = &common.color,
                    .value = "auto|always|never",
                    .help = "use colour on stderr",
                    .checked = true},
                   {.name = "--threads",
                    .to = Bounded{&common.threads, 1, 1024},
                    .value = "N",
                    .help = "number of threads (default: one per core); never "
                            "changes a result"}};
  if (!command.formats.empty()) {
    every.push_back({.name = "--format",
                     .to = &common.format,
                     .value = std::string(command.formats),
                     .help = "format of the result",
                     .checked = true});
  }
  every.push_back({.name = "--help",
                   .to = &common.help,
                   .help = "print this help message and exit",
                   .letter = 'h'});
  Append(options, Under("Every command", std::move(every)));
  return options;
}

}  // namespace shardc::cli
