// Lints of one compiled target, as `check` and the last line of `plan` have
// them.
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

// What flags say over the model's config.json and the target.
struct LintFlags {
  AttentionFlag attention;
  std::optional<int64_t> memory;
};

// `extra` are findings made elsewhere; `fixes`, where it is not null, receives
// what mends the findings.
LintResult LintTarget(const Target& target, const Compiled& compiled,
                      std::optional<ModelConfig> config, const LintFlags& flags,
                      const Selection& selection, FindingSink extra = {},
                      std::vector<RuleFix>* fixes = nullptr);

// The settings of `check`: the project's, if there is one to be read. What is
// wrong with it is for `check` to tell; `findings` learn what was read.
LintSettings ProjectLintSettings(const TargetRequest& asked,
                                 Findings& findings);
// By such settings, with what the baseline knows taken away. Nothing where the
// settings make no sense, which is for `check` to tell.
std::optional<LintResult> LintBySettings(const Target& target,
                                         const Compiled& compiled,
                                         std::optional<ModelConfig> config,
                                         const LintFlags& flags,
                                         const LintSettings& settings,
                                         Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_LINT_TARGET_H_
