// The committed files of a target (its plan, and files next to it): reads them,
// prints how they differ from what a run makes, and decides whether a file may
// be overwritten.
#ifndef SHARDC_CLI_COMMITTED_PLAN_H_
#define SHARDC_CLI_COMMITTED_PLAN_H_

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/file_set.h"
#include "cli/output.h"
#include "model/project.h"
#include "plan/difference/plan_difference.h"
#include "source/file.h"
#include "source/finding.h"
#include "source/sink.h"
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

// What a run has done with the committed files of the targets before.
struct CommittedOutcome {
  std::string diff;          // differences to print
  std::set<FileId> written;  // committed files written so far
};

// Two targets may name the same committed file, and the first target has just
// written it. Returns whether the second target, `target`, would write the same
// content. Otherwise adds a finding.
bool HoldsTheSame(const Write& write, const std::string& path,
                  const Target& target, Findings& findings);

// Adds a file that is committed next to the plan to the files to write. If a
// target before this one has written the file, only checks that both have the
// same text. An existing file is overwritten only if its format is `schema`.
// Returns the exit status.
int PutBesidePlan(const Target& target, const std::string& path,
                  std::string_view schema, const Write& write, FileSet& set,
                  CommittedOutcome& outcome, Findings& findings);

// Appends the differences from the committed file `path`, or lines about it, to
// `out`. Returns the exit status.
int ShowDifference(const PlanDifference& difference, const std::string& path,
                   const Common& common, std::string& out);
int ShowLines(const std::vector<std::string>& changes, const std::string& path,
              const Common& common, std::string& out);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_COMMITTED_PLAN_H_
