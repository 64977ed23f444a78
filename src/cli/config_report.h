// What a system makes of a configuration, as text and as JSON.
#ifndef SHARDC_CLI_CONFIG_REPORT_H_
#define SHARDC_CLI_CONFIG_REPORT_H_

#include <optional>
#include <string>

#include "source/sink.h"
#include "systems/deployment.h"

namespace shardc::cli {

// Returns the line about a configuration: its ranks, and the bytes of the
// parameters that the fullest rank holds.
std::string DeploymentLine(const systems::Deployment& deployment);

std::string DeploymentText(const systems::Deployment& deployment);
// Writes the derived values, grids, mesh and stages, the coordinates of each
// rank, and the shapes that groups of ranks hold.
void WriteDeploymentJson(const systems::Deployment& deployment, Sink& out);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_CONFIG_REPORT_H_
