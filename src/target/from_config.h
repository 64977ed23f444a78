// Reads the configurations of other systems that targets follow, such as
// `from: {megatron: train.sh}`, and searches folders for them.
#ifndef SHARDC_TARGET_FROM_CONFIG_H_
#define SHARDC_TARGET_FROM_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "parse/config_name.h"
#include "source/finding.h"
#include "source/source.h"
#include "systems/deployment.h"

namespace shardc {

// Reads the file, and its model or manifest, and computes the deployment.
// Returns nullopt after a finding. With `lenient`, what is not known is a note.
std::optional<systems::Deployment> DeployFile(const ConfigOrigin& origin,
                                              bool lenient, Findings& findings);

// A configuration that a folder was searched for.
struct FoundConfig {
  std::string file;    // relative to the folder
  std::string format;  // a system such as `megatron`, or `maxtext`, `python`
  std::string symbol;  // of a configuration in Python; else empty
};
struct FoundConfigs {
  std::vector<FoundConfig> configs;
  int64_t files = 0;  // that were looked at
  // Files that seem to have a configuration and cannot be read, with the
  // reason.
  std::vector<std::pair<std::string, std::string>> unread;
};
// Searches a folder and the folders below it for configurations. Only names and
// texts of files are read. Folders of packages and hidden ones are left out.
FoundConfigs FindConfigs(const std::string& folder);

}  // namespace shardc

#endif  // SHARDC_TARGET_FROM_CONFIG_H_
