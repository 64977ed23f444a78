// Runs the lints of one compiled target, for `check`, `report` and `init`, and
// for the number of findings that `plan` prints.
#ifndef SHARDC_CLI_LINT_TARGET_H_
#define SHARDC_CLI_LINT_TARGET_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "cli/attention_flag.h"
#include "lint/fix.h"
#include "lint/run.h"
#include "lint/select.h"
#include "model/project.h"
#include "plan/compile.h"
#include "target/choose.h"

namespace shardc::cli {

// Options that override the model's config.json and the target.
struct LintFlags {
  AttentionFlag attention;
  std::optional<int64_t> memory;
  // The sizes of the step whose costs `report` shows. A size that is not set is
  // taken from the target.
  std::optional<int64_t> batch, length, kv_length;
};

// If the declared pipeline stages were refused, returns the reasons as
// findings. Returns only selected findings with the codes of
// source/stage_code.h. Errors with other codes are added to `findings`.
FindingSink RefusedStages(const Compiled& compiled, const Selection& selection,
                          Findings& findings);

// Runs the lints. `extra` are findings to add to the result. `fixes`, unless
// null, gets the fixes of the findings.
LintResult LintTarget(const Target& target, const Compiled& compiled,
                      std::optional<ModelConfig> config, const LintFlags& flags,
                      const Selection& selection, FindingSink extra = {},
                      std::vector<RuleFix>* fixes = nullptr);

// Returns the project's settings for `check`, or defaults if they cannot be
// read. Files that were read are recorded in `findings`. Errors are not added,
// because `check` reports them.
LintSettings ProjectLintSettings(const TargetRequest& asked,
                                 Findings& findings);
// Runs the lints with a project's settings, and removes the findings of the
// baseline. `extra` are findings to add to the result. Returns nullopt if the
// settings are invalid, which `check` reports.
std::optional<LintResult> LintBySettings(
    const Target& target, const Compiled& compiled,
    std::optional<ModelConfig> config, const LintFlags& flags,
    const LintSettings& settings, Findings& findings, FindingSink extra = {});

}  // namespace shardc::cli

#endif  // SHARDC_CLI_LINT_TARGET_H_
