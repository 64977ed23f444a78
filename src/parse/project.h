// The project file (shardc.yaml) and a model's config.json.
#ifndef SHARDC_PARSE_PROJECT_H_
#define SHARDC_PARSE_PROJECT_H_

#include <optional>
#include <string>

#include "model/project.h"
#include "source/finding.h"

namespace shardc {

// The nearest shardc.yaml from `directory` upwards to the repository's root
// (the folder that holds .git); nothing if there is none.
std::optional<std::string> FindProject(const std::string& directory);
std::optional<Project> ReadProject(const std::string& path, Findings& findings);
std::optional<ModelConfig> ReadModelConfig(const std::string& path,
                                           Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_PROJECT_H_
