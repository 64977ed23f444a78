// Reads the committed files of a target (a plan and a step program), and
// decides whether a file may be overwritten.
#ifndef SHARDC_CLI_COMMITTED_PLAN_H_
#define SHARDC_CLI_COMMITTED_PLAN_H_

#include <string>
#include <string_view>

#include "model/project.h"
#include "source/finding.h"
#include "source/source.h"

namespace shardc::cli {

// Reads the target's committed plan. If it cannot be read, returns null and
// adds a finding that names the command that creates it.
SourceRef ReadCommittedPlan(const Target& target, Findings& findings);
// Reads the target's committed step program. If it cannot be read, returns null
// and adds a finding that names the command that creates it.
SourceRef ReadCommittedStep(const Target& target, Findings& findings);

// Returns whether `path` may be overwritten. Otherwise adds a finding. A
// mistyped path in the project must not destroy another file of the user. The
// path may therefore be overwritten only if this run has not read it, and if
// one of these is true:
// - the path does not exist, or is no regular file
// - the file is empty
// - the first 4 KiB of the file contain the schema's name ("shardc.plan")
bool MayReplace(const Target& target, const std::string& path,
                std::string_view schema, Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_COMMITTED_PLAN_H_
