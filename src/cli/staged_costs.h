// Computes the cost of a compiled target and of a plan's pipeline stages, for
// `cost`, pictures, the report page and budgets.
#ifndef SHARDC_CLI_STAGED_COSTS_H_
#define SHARDC_CLI_STAGED_COSTS_H_

#include <optional>

#include "cli/plan_table.h"
#include "cli/stage_flags.h"
#include "cost/pipeline.h"
#include "cost/settings.h"
#include "emit/pictures/bars_text.h"
#include "source/finding.h"

namespace shardc::cli {

// Returns the cost inputs of a compiled target. Returns nullopt after a finding
// if a spec is illegal, or if axes do not divide the heads.
std::optional<cost::CostInputs> CompiledWork(const StagedTarget& target,
                                             Mode mode, Findings& findings);

// Returns the cost of the stages into which the flags or the target's
// declaration divide the model. Returns nullopt after a finding.
std::optional<cost::PipelineCost> CostOfStages(const StageFlags& flags,
                                               const StagedTarget& target,
                                               const cost::CostInputs& work,
                                               const cost::Settings& settings,
                                               const StageSizes& sizes,
                                               Findings& findings);

// Returns the cost of the stages in training, with the number of micro-batches
// of the plan's schedule. `planned` must have stages. Returns nullopt after a
// finding: `settings` has no batch or length, or StagedPlanOf or
// cost::PipelineCostOf fails.
std::optional<cost::PipelineCost> StagedCostOf(const Planned& planned,
                                               const cost::Settings& settings,
                                               Findings& findings);

MemoryBars BarsOfRanks(const cost::PipelineCost& cost, int64_t devices);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_STAGED_COSTS_H_
