#include <array>
#include <utility>

#include "cli/command.h"
#include "cli/commands.h"

namespace shardc::cli {
namespace {

#define SHARDC_LINE(name) &name,
constexpr std::array kCommands = {SHARDC_COMMANDS(SHARDC_LINE)};
#undef SHARDC_LINE

}  // namespace

std::span<const Command* const> Commands() { return kCommands; }

Options WithCommon(Options own, const Command& command, Common& common) {
  Options options = {{.name = "--help",
                      .to = &common.help,
                      .help = "print this help message and exit",
                      .letter = 'h'}};
  Append(options, std::move(own));
  Append(options,
         {{.name = "--quiet",
           .to = &common.quiet,
           .help = "say nothing on stderr but errors",
           .letter = 'q'},
          {.name = "--color",
           .to = &common.color,
           .value = "auto|always|never",
           .help = "colour on stderr",
           .checked = true},
          {.name = "--threads",
           .to = Bounded{&common.threads, 1, 1024},
           .value = "N",
           .help = "threads to use (default: one per core); never changes a "
                   "result"}});
  if (!command.formats.empty()) {
    options.push_back({.name = "--format",
                       .to = &common.format,
                       .value = std::string(command.formats),
                       .help = "format of the result",
                       .checked = true});
  }
  return options;
}

}  // namespace shardc::cli
