// The options of commands that read the configuration of another system.
#ifndef SHARDC_CLI_CONFIG_FLAGS_H_
#define SHARDC_CLI_CONFIG_FLAGS_H_

#include <optional>
#include <string>

#include "cli/command.h"
#include "source/finding.h"
#include "source/source.h"
#include "systems/deployment.h"
#include "systems/system.h"

namespace shardc::cli {

struct ConfigFlags {
  std::string system, file, symbol, devices, model, manifest, families;
  Strings set;
};
// Computes the deployment of the file. Returns nullopt after a finding.
std::optional<systems::Deployment> DeployFlags(const ConfigFlags& flags,
                                               bool lenient,
                                               Findings& findings);

// Returns the system whose configuration the file has; null if it has none.
// What cannot be read is a finding.
const systems::System* SystemOfFile(const SourceRef& source,
                                    Findings& findings);

// Returns the names of all systems.
Strings SystemNames();
// Returns "NAME: configurations of TITLE; ..." for all systems.
std::string SystemsText();

}  // namespace shardc::cli

#endif  // SHARDC_CLI_CONFIG_FLAGS_H_
