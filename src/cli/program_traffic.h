// What a target's step sends, read from its program.
#ifndef SHARDC_CLI_PROGRAM_TRAFFIC_H_
#define SHARDC_CLI_PROGRAM_TRAFFIC_H_

#include <optional>
#include <string>

#include "cost/communication.h"
#include "cost/report.h"
#include "cost/settings.h"
#include "cost/work.h"
#include "model/project.h"
#include "plan/compile.h"

namespace shardc::cli {

// Nothing, and why, where no program can be built of the rules, or none says
// what is asked.
std::optional<cost::Communication> ProgramTraffic(
    const Compiled& compiled, const std::optional<ModelConfig>& model,
    const cost::Work& work, const cost::Settings& settings, std::string& why);

// All that `cost` says, with what is sent from the program where there is one.
// A plan that was written is not compiled: null.
cost::Report CostOf(const Compiled* compiled,
                    const std::optional<ModelConfig>& model,
                    const cost::Work& work, const cost::Settings& settings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_PROGRAM_TRAFFIC_H_
