// Reads the project file (shardc.yaml).
#ifndef SHARDC_PARSE_PROJECT_H_
#define SHARDC_PARSE_PROJECT_H_

#include <optional>
#include <string>

#include "model/project.h"
#include "source/file_texts.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc {

// Returns the nearest shardc.yaml from `directory` upwards to the repository's
// root (the folder that holds .git) or, without a repository, to the root of
// the file system. Returns nullopt if there is none.
std::optional<std::string> FindProject(const std::string& directory);
// Reads a project file. A path in it that leads out of its repository is a
// finding unless `allow_outside`. `texts`, unless null, replaces the contents
// of files. Returns nullopt after a finding.
std::optional<Project> ReadProject(const std::string& path, Findings& findings,
                                   const FileTexts* texts = nullptr,
                                   bool allow_outside = false);
// Reads a config.json. Sizes are checked against bounds, and sizes that
// contradict each other are findings. Returns nullopt after a finding.
std::optional<ModelConfig> ReadModelConfig(const std::string& path,
                                           Findings& findings);
// Reads a config.json as the function above does, from a document whose root is
// an object.
std::optional<ModelConfig> ReadModelConfig(const JsonDocument& document,
                                           Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_PROJECT_H_
