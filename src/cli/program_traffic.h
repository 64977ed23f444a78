// Computes the communication of a target's step from its step program.
#ifndef SHARDC_CLI_PROGRAM_TRAFFIC_H_
#define SHARDC_CLI_PROGRAM_TRAFFIC_H_

#include <optional>
#include <string>

#include "cost/communication.h"
#include "cost/inputs.h"
#include "cost/report.h"
#include "cost/settings.h"
#include "model/project.h"
#include "plan/compile.h"

namespace shardc::cli {

// Returns the report of `cost`. If a step program can be made from the rules'
// description of the model, the report has the communication of this program.
// `compiled` is null if the plan was read from a file, which does not describe
// the model.
cost::Report CostOf(const Compiled* compiled,
                    const std::optional<ModelConfig>& model,
                    const cost::CostInputs& work,
                    const cost::Settings& settings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_PROGRAM_TRAFFIC_H_
