#include <array>

#include "cli/command.h"
#include "cli/commands.h"

namespace shardc::cli {
namespace {

#define SHARDC_LINE(name) &name,
constexpr std::array kCommands = {SHARDC_COMMANDS(SHARDC_LINE)};
#undef SHARDC_LINE

}  // namespace

std::span<const Command* const> Commands() { return kCommands; }

}  // namespace shardc::cli
