// Compares a plan with the sharding with which a checkpoint was saved.
#ifndef SHARDC_CLI_SAVED_SHARDING_H_
#define SHARDC_CLI_SAVED_SHARDING_H_

#include <optional>
#include <string>

#include "plan/difference/plan_difference.h"
#include "source/finding.h"

namespace shardc::cli {

// Compares the sharding that the checkpoint records with the plan's specs in
// each of the plan's modes. The difference lists the parameters that are
// resharded when the checkpoint is restored, and the names, shapes and data
// types that differ. Parameters without a recorded sharding are compared as
// replicated. Members that a checkpoint does not have, such as rules, are not
// compared. Returns nullopt after a finding: missing (the checkpoint records no
// sharding), inexpressible (several meshes), or an error in reading the
// checkpoint or the plan.
std::optional<PlanDifference> CompareCheckpoint(const std::string& path,
                                                const PlanTable& plan,
                                                Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_SAVED_SHARDING_H_
