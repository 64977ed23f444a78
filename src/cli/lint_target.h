// The lints of one compiled target, for `check` and for the count that `plan`
// prints.
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
  // Of the step that `report` shows costs of; absent: the target's.
  std::optional<int64_t> batch, length, kv_length;
};

// `extra` are findings of other stages; `fixes`, unless null, gets the fixes of
// the findings.
LintResult LintTarget(const Target& target, const Compiled& compiled,
                      std::optional<ModelConfig> config, const LintFlags& flags,
                      const Selection& selection, FindingSink extra = {},
                      std::vector<RuleFix>* fixes = nullptr);

// The project's settings for `check`, if it can be read; `findings` records
// what was read. Errors in the settings are reported by `check`.
LintSettings ProjectLintSettings(const TargetRequest& asked,
                                 Findings& findings);
// Lints with such settings, without the findings of the baseline. Returns
// nullopt if the settings are invalid, which `check` reports.
std::optional<LintResult> LintBySettings(const Target& target,
                                         const Compiled& compiled,
                                         std::optional<ModelConfig> config,
                                         const LintFlags& flags,
                                         const LintSettings& settings,
                                         Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_LINT_TARGET_H_
