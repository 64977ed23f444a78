// Makes the file of the CI workflow that `shardc init` writes. The workflow
// checks the project at every change.
#ifndef SHARDC_CLI_WORKFLOW_H_
#define SHARDC_CLI_WORKFLOW_H_

#include <optional>
#include <string>

#include "cli/new_files.h"
#include "source/finding.h"

namespace shardc::cli {

// Returns the workflow for the project `name` in `folder`. In a repository, the
// file is below the repository's root, where CI services look for it. Outside
// of a repository it is below `folder`. Returns nullopt after a finding if the
// file of this program cannot be read, because the workflow contains its
// digest.
std::optional<NewFile> CheckWorkflow(const std::string& folder,
                                     const std::string& name,
                                     Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_WORKFLOW_H_
