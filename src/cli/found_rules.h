// Checks rules of other systems in files that a folder was searched for:
// MaxText's YAML, and lists of patterns and specs in Python.
#ifndef SHARDC_CLI_FOUND_RULES_H_
#define SHARDC_CLI_FOUND_RULES_H_

#include <optional>
#include <string>

#include "cli/check_targets.h"
#include "lint/run.h"
#include "target/from_config.h"

namespace shardc::cli {

// Adds findings to a target, if they are selected. A finding that is about the
// reading of a file is a note.
void TakeFindings(const Findings& own, const Selection& selection,
                  CheckedTarget& target);

// Checks the rules of a file by themselves: no mesh and no manifest is needed.
// Appends a line about them to `text`. Returns nullopt if the file has none.
std::optional<CheckedTarget> CheckFoundRules(const FoundConfig& found,
                                             const Selection& selection,
                                             std::string& text);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_FOUND_RULES_H_
