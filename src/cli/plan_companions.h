// What `plan` takes from rooms that making a plan does not need: the counts of
// findings that it prints, and the files that are committed next to a plan.
#ifndef SHARDC_CLI_PLAN_COMPANIONS_H_
#define SHARDC_CLI_PLAN_COMPANIONS_H_

#include <optional>
#include <string>

#include "cli/command.h"
#include "cli/committed_plan.h"
#include "cli/file_set.h"
#include "cli/inputs.h"
#include "model/project.h"
#include "parse/project.h"
#include "source/finding.h"

namespace shardc::cli {

// Returns whether the target has a section `audit` that can be read.
bool HasAudit(const Target& target, bool allow_outside);

// Returns a text with the number of findings that `check` would report, and the
// command that lists them. If the target has a compiled program, the text
// states that findings about it are not counted. The text is empty if the lint
// settings are invalid.
std::string CheckText(const Target& target, bool allow_outside,
                      const StagedTarget& compiled,
                      const LintSettings& settings, Findings& findings);

// A target whose committed files `plan` compares (`diff`) or writes.
struct Committing {
  const Target& target;
  const StagedTarget& compiled;
  const Common& common;
  bool allow_outside = false;
  bool diff = false;
};

// Writes or compares the files that the target commits next to its plan: the
// step program, the summary of its compiled program, and the figures with which
// its budget compares the growth of a step. Returns the exit status.
int PutCompanions(const Committing& run, FileSet& set,
                  CommittedOutcome& outcome, Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_PLAN_COMPANIONS_H_
