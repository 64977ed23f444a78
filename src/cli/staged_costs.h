// Computes the cost of a plan's pipeline stages, which a picture or the report
// page shows.
#ifndef SHARDC_CLI_STAGED_COSTS_H_
#define SHARDC_CLI_STAGED_COSTS_H_

#include <optional>

#include "cli/plan_table.h"
#include "cost/pipeline.h"
#include "cost/settings.h"
#include "emit/pictures/bars_text.h"
#include "source/finding.h"

namespace shardc::cli {

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
