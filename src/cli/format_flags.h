// Checks options that apply to only some formats of a command.
#ifndef SHARDC_CLI_FORMAT_FLAGS_H_
#define SHARDC_CLI_FORMAT_FLAGS_H_

#include <span>
#include <string_view>
#include <utility>

#include "source/finding.h"

namespace shardc::cli {

// Returns whether the format `name` accepts all given options. Otherwise adds a
// finding for the first option that the format does not accept. `flags` lists
// the options of the format, separated by spaces. `given` has the name of each
// option and whether it was given.
bool TakesFlags(std::string_view name, std::string_view flags,
                std::span<const std::pair<std::string_view, bool>> given,
                Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_FORMAT_FLAGS_H_
