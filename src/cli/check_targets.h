// Checks targets in parallel and merges their findings.
#ifndef SHARDC_CLI_CHECK_TARGETS_H_
#define SHARDC_CLI_CHECK_TARGETS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/compared_program.h"
#include "cli/inputs.h"
#include "cli/target_audit.h"
#include "lint/fix.h"
#include "lint/run.h"
#include "model/project.h"
#include "plan/compile.h"
#include "source/finding.h"
#include "source/sink.h"
#include "target/choose.h"

namespace shardc::cli {

// Options that override the model's config.json or the target.
struct LintFlags {
  AttentionFlag attention;
  std::optional<int64_t> memory;
  // Sizes of the step. `report` sets them to the sizes that its costs use. A
  // size that is not set is taken from the target.
  std::optional<int64_t> batch, length, kv_length;
  // Whether findings list the names of their parameters.
  bool lists_names = true;
  // The program of `--program`, with which the plans are compared. May be null.
  const program::TracedProgram* traced = nullptr;
};

// If the declared pipeline stages were refused, returns the reasons as
// findings. Only selected findings with the codes of source/finding.h are
// returned. Errors with other codes are added to `findings`.
FindingSink RefusedStages(const Compiled& compiled, const Selection& selection,
                          Findings& findings);

// Runs the lints. `extra` are findings to add to the result. If `fixes` is not
// null, the fixes of the findings are added to it.
LintResult LintTarget(const Target& target, const Compiled& compiled,
                      std::optional<ModelConfig> config, const LintFlags& flags,
                      const Selection& selection, FindingSink extra = {},
                      std::vector<RuleFix>* fixes = nullptr);

// Runs the lints with a project's settings, and removes the findings that the
// baseline lists. `extra` are findings to add to the result. Returns nullopt if
// the settings are invalid, which `check` reports.
std::optional<LintResult> LintBySettings(
    const Target& target, const Compiled& compiled,
    std::optional<ModelConfig> config, const LintFlags& flags,
    const LintSettings& settings, Findings& findings, FindingSink extra = {});

struct CheckOptions {
  InputFlags inputs;
  LintFlags lint;
  // The systems of `--runtime`, which are to run the plan.
  std::vector<std::string> runtimes;
  bool locked = false;
  bool fix = false;   // whether to compute fixes too
  bool keep = false;  // whether to keep the compiled plans
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
JoinedFindings JoinFindings(std::vector<CheckedTarget>& targets);

// Writes, for each code, the number of its findings and the number of
// parameters that they name. A parameter that is in two findings is counted
// twice.
void WriteStatistics(std::span<const Finding> findings, bool as_json,
                     Sink& out);

// Returns the summary line: the number of findings of each level, and the
// skipped lints. `known` is the number of findings that were removed because
// the baseline lists them.
std::string SummaryText(const Findings& findings,
                        const std::vector<CheckedTarget>& targets,
                        int64_t known, bool hides_notes);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_CHECK_TARGETS_H_
