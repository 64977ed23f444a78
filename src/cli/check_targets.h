// Checks targets in parallel and merges their findings.
#ifndef SHARDC_CLI_CHECK_TARGETS_H_
#define SHARDC_CLI_CHECK_TARGETS_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/inputs.h"
#include "cli/lint_target.h"
#include "cli/target_audit.h"
#include "cli/traced_program.h"
#include "lint/fix.h"
#include "lint/run.h"
#include "lint/select.h"
#include "model/project.h"
#include "plan/compile.h"

namespace shardc::cli {

struct CheckOptions {
  InputFlags inputs;
  LintFlags lint;
  bool locked = false;
  bool fix = false;   // whether to compute fixes too
  bool keep = false;  // whether to keep the compiled plans
  // The program of `--program`, with which the plans are compared. May be null.
  const TracedProgram* traced = nullptr;
  // Caches the bytes that each compiled program sends. Only the language server
  // sets this member, because it must not read a program at each keystroke. The
  // check then compares these bytes with the limits of the target's budget. It
  // reports no flaws of a program, and does not compare a program with the
  // summary that is committed for it.
  ProgramSums* programs = nullptr;
};

struct CheckedTarget {
  std::string name;
  // The place at which a finding is shown if it is about no line of a file, for
  // example about the mesh of `--mesh`.
  Place main_file;
  Findings errors;  // errors in inputs and committed files
  LintResult result;
  std::vector<std::string> rule_files;
  std::vector<RuleFix> fixes;
  // The compiled plan. Null if the target has errors, or if CheckOptions::keep
  // is false.
  std::shared_ptr<const Compiled> compiled;
};

// Checks the targets. The results are in the order of `targets`.
std::vector<CheckedTarget> CheckTargets(const std::vector<Target>& targets,
                                        const CheckOptions& options,
                                        const Selection& selection,
                                        const Common& common);

struct JoinedFindings {
  Findings findings;  // sorted
  bool unreadable = false;
};

// Merges equal findings of several targets into one finding with the names of
// the targets. A part of a rules file is reported as unused only if it is
// unused in every target that reads the file.
JoinedFindings Join(std::vector<CheckedTarget>& targets);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_CHECK_TARGETS_H_
