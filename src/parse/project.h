// Reads the project file (shardc.yaml).
#ifndef SHARDC_PARSE_PROJECT_H_
#define SHARDC_PARSE_PROJECT_H_

#include <optional>
#include <string>

#include "model/project.h"
#include "source/file_texts.h"
#include "source/finding.h"

namespace shardc {

// Returns the nearest shardc.yaml from `directory` upwards to the repository's
// root (the folder that holds .git), or nullopt.
std::optional<std::string> FindProject(const std::string& directory);
// A path of the project that leads out of its repository is a finding unless
// `allow_outside`. `texts` replaces the content of files; may be null. Returns
// nullopt after a finding.
std::optional<Project> ReadProject(const std::string& path, Findings& findings,
                                   const FileTexts* texts = nullptr,
                                   bool allow_outside = false);
std::optional<ModelConfig> ReadModelConfig(const std::string& path,
                                           Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_PROJECT_H_
