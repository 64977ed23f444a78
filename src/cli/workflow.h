// The workflow that `init` writes: it checks a project at every change.
#ifndef SHARDC_CLI_WORKFLOW_H_
#define SHARDC_CLI_WORKFLOW_H_

#include <optional>
#include <string>

#include "cli/new_files.h"
#include "source/finding.h"

namespace shardc::cli {

// Returns the workflow for the project `name` in `folder`. Its file is in the
// root of the repository, where CI services look for it or, outside of a
// repository, in `folder`. Returns nullopt after a finding if this program,
// whose digest the workflow compares, cannot be read.
std::optional<NewFile> CheckWorkflow(const std::string& folder,
                                     const std::string& name,
                                     Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_WORKFLOW_H_
