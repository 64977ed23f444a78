// Finds the committed plan of a target, or reports that there is none.
#ifndef SHARDC_CLI_COMMITTED_PLAN_H_
#define SHARDC_CLI_COMMITTED_PLAN_H_

#include <string>
#include <string_view>

#include "model/project.h"
#include "source/finding.h"
#include "source/source.h"

namespace shardc::cli {

// Null, with a finding that names the command that writes it, where it cannot
// be read.
SourceRef ReadCommittedPlan(const Target& target, Findings& findings);
// The same of the step program.
SourceRef ReadCommittedStep(const Target& target, Findings& findings);

// Whether what stands at `path`, if anything, is of that schema
// ("shardc.plan") and so may be replaced: a project's file can be mistyped, or
// not one's own. A finding (usage) where it is something else.
bool MayReplace(const Target& target, const std::string& path,
                std::string_view schema, Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_COMMITTED_PLAN_H_
