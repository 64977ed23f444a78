// Compares what a step of a target takes with the target's budget.
#ifndef SHARDC_CLI_TARGET_BUDGET_H_
#define SHARDC_CLI_TARGET_BUDGET_H_

#include <optional>

#include "lint/rules/lint.h"
#include "lint/select.h"
#include "model/project.h"
#include "plan/plan.h"
#include "source/finding.h"

namespace shardc::cli {

// Returns a finding (over-step-budget) for each limit of `budget` that a step
// exceeds, or for which the bytes of the step are not known, at the line of the
// limit. The figures are those of `shardc cost` for the target alone, in its
// first mode, or in training if it lists no modes. Growth is that of the bytes
// of parameters per device since the committed plan.
FindingSink StepBudgetFindings(const Target& target, const Compiled& compiled,
                               const std::optional<ModelConfig>& config,
                               const Selection& selection, Findings& errors);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_TARGET_BUDGET_H_
