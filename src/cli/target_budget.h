// Compares the figures of a target's step with the target's budget, and commits
// the figures with which a later check compares them.
#ifndef SHARDC_CLI_TARGET_BUDGET_H_
#define SHARDC_CLI_TARGET_BUDGET_H_

#include <optional>
#include <string>
#include <vector>

#include "cli/stage_flags.h"
#include "cost/figures.h"
#include "lint/rules/lint.h"
#include "lint/select.h"
#include "model/project.h"
#include "source/finding.h"

namespace shardc::cli {

// Returns the path of the figures that are committed next to a plan:
// plans/a.plan.json -> plans/a.cost.json.
std::string CostLockPath(const std::string& plan);

// Returns the figures that `cost` prints for the target in the budget's mode.
// Returns nullopt after a finding.
std::optional<cost::StepFigures> FiguresOfTarget(const Target& target,
                                                 const StagedTarget& compiled,
                                                 Findings& findings);

// Returns one finding (over-step-budget) for each figure that exceeds a limit
// of the budget, or that is not known or only a lower bound. The finding is
// placed at the limit. The growth of figures is compared if they are committed;
// with `locked`, it is an error if they are not. Errors in the target's step
// options are added to `errors`.
FindingSink CheckStepBudget(const Target& target, const StagedTarget& compiled,
                            bool locked, const Selection& selection,
                            Findings& errors);

// Returns a line for each figure that differs from the committed one. Returns
// nullopt after a finding.
std::optional<std::vector<std::string>> FigureChanges(
    const Target& target, const cost::StepFigures& now, Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_TARGET_BUDGET_H_
