// The project file (shardc.yaml) and a model's config.json.
#ifndef SHARDC_PARSE_PROJECT_H_
#define SHARDC_PARSE_PROJECT_H_

#include <optional>
#include <string>

#include "model/project.h"
#include "source/file_texts.h"
#include "source/finding.h"

namespace shardc {

// The nearest shardc.yaml from `directory` upwards to the repository's root
// (the folder that holds .git); nothing if there is none.
std::optional<std::string> FindProject(const std::string& directory);
// `texts` stand in for what files hold; may be null.
std::optional<Project> ReadProject(const std::string& path, Findings& findings,
                                   const FileTexts* texts = nullptr);
std::optional<ModelConfig> ReadModelConfig(const std::string& path,
                                           Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_PROJECT_H_
