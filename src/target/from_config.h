// Reads the configurations of other systems that targets follow, such as
// `from: {megatron: train.sh}`, and searches folders for them.
#ifndef SHARDC_TARGET_FROM_CONFIG_H_
#define SHARDC_TARGET_FROM_CONFIG_H_

#include <cstdint>
#include <memory>
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
  int64_t line = 0;    // of the command, if the file has several; else 0
  // The text of a system's configuration; null for other formats.
  std::shared_ptr<const systems::ConfigText> text = nullptr;
};
struct FoundConfigs {
  std::vector<FoundConfig> configs;
  int64_t files = 0;  // that were looked at
  // Files that seem to have a configuration and cannot be read, with the
  // reason.
  std::vector<std::pair<std::string, std::string>> unread;
};
// Computes the deployment of a configuration that was found. What is not known
// is a note.
std::optional<systems::Deployment> DeployFound(const FoundConfig& found,
                                               const ConfigOrigin& origin,
                                               Findings& findings);
// Searches a folder and the folders below it for configurations. Files are read
// if their names and sizes are those of a configuration, and parsed if they
// have a word of a system. Folders of packages and hidden ones are left out, as
// are tests in Python, and functions of Python whose axes all have the size 1.
FoundConfigs FindConfigs(const std::string& folder);

}  // namespace shardc

#endif  // SHARDC_TARGET_FROM_CONFIG_H_
