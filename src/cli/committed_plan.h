// Reads the committed files of a target, its plan and its step program, and
// decides whether they may be overwritten.
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
// Reads the target's committed step program in the same way as
// ReadCommittedPlan.
SourceRef ReadCommittedStep(const Target& target, Findings& findings);

// Returns whether `path` may be overwritten, so that a mistyped path in the
// project does not destroy another file of the user. It may if this run has not
// read the file, and the file is empty, is not a regular file, or has the
// schema's name ("shardc.plan") in its first 4 KiB. Otherwise adds a finding.
bool MayReplace(const Target& target, const std::string& path,
                std::string_view schema, Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_COMMITTED_PLAN_H_
