// Runs the lints of one compiled target for `check`, `report` and `init`.
// `plan` runs them too, but only prints the number of findings.
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

// Options that override the model's config.json or the target.
struct LintFlags {
  AttentionFlag attention;
  std::optional<int64_t> memory;
  // Sizes of the step. `report` sets them to the sizes that its costs use. A
  // size that is not set is taken from the target.
  std::optional<int64_t> batch, length, kv_length;
  // Whether findings list the names of their parameters.
  bool lists_names = true;
};

// If the declared pipeline stages were refused, returns the reasons as
// findings. Only selected findings with the codes of source/stage_code.h are
// returned. Errors with other codes are added to `findings`.
FindingSink RefusedStages(const Compiled& compiled, const Selection& selection,
                          Findings& findings);

// Runs the lints. `extra` are findings to add to the result. If `fixes` is not
// null, the fixes of the findings are added to it.
LintResult LintTarget(const Target& target, const Compiled& compiled,
                      std::optional<ModelConfig> config, const LintFlags& flags,
                      const Selection& selection, FindingSink extra = {},
                      std::vector<RuleFix>* fixes = nullptr);

// Returns the project's settings for `check`. Returns defaults if they cannot
// be read; errors are not added, because `check` reports them. Files that were
// read are recorded in `findings`.
LintSettings ProjectLintSettings(const TargetRequest& asked,
                                 Findings& findings);
// Runs the lints with a project's settings, and removes the findings that the
// baseline lists. `extra` are findings to add to the result. Returns nullopt if
// the settings are invalid, which `check` reports.
std::optional<LintResult> LintBySettings(
    const Target& target, const Compiled& compiled,
    std::optional<ModelConfig> config, const LintFlags& flags,
    const LintSettings& settings, Findings& findings, FindingSink extra = {});

}  // namespace shardc::cli

#endif  // SHARDC_CLI_LINT_TARGET_H_
