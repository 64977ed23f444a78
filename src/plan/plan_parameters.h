// Finds what the parameters of a plan's file do, from their names and shapes. A
// file has neither the `model:` section of the rules nor the configuration.
#ifndef SHARDC_PLAN_PLAN_PARAMETERS_H_
#define SHARDC_PLAN_PLAN_PARAMETERS_H_

#include <vector>

#include "facts/parameters.h"
#include "model/project.h"
#include "plan/plan_table.h"
#include "plan/read.h"

namespace shardc {

// Returns the facts about the parameters, in the plan's order. `separator` is
// that of their names, and `config` is null if there is no configuration. The
// plan need not outlive the result.
facts::ParameterTable ParametersOf(const ReadPlan& plan, char separator,
                                   const ModelConfig* config = nullptr);
facts::ParameterTable ParametersOf(const PlanTable& table, char separator);
// Returns StrangeGroups() (facts/parameters.h) of the table of a plan.
std::vector<bool> StrangeGroupsOf(const ReadPlan& plan,
                                  const facts::ParameterTable& parameters,
                                  char separator);

}  // namespace shardc

#endif  // SHARDC_PLAN_PLAN_PARAMETERS_H_
