// Compares a plan with the sharding with which a checkpoint was saved.
#ifndef SHARDC_CLI_SAVED_SHARDING_H_
#define SHARDC_CLI_SAVED_SHARDING_H_

#include <optional>
#include <string>

#include "plan/difference/plan_difference.h"
#include "source/finding.h"

namespace shardc::cli {

// Compares the sharding that the checkpoint records with the plan's specs in
// each of the plan's modes. The difference has the parameters that restoring
// moves, and the names, shapes and data types that do not fit. Parameters
// without a sharding are replicated. Members that a checkpoint does not have,
// such as rules, are not compared. Returns nullopt after a finding: missing
// (the checkpoint records no sharding), inexpressible (several meshes), or an
// error in reading the checkpoint or the plan.
std::optional<PlanDifference> CompareCheckpoint(const std::string& path,
                                                const PlanTable& plan,
                                                Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_SAVED_SHARDING_H_
