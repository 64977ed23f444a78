// Reads the project file (shardc.yaml).
#ifndef SHARDC_PARSE_PROJECT_H_
#define SHARDC_PARSE_PROJECT_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "model/project.h"
#include "source/file.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc {

// Returns the nearest shardc.yaml in `directory` or one of its parents. The
// search ends at the root of the repository (the folder that contains .git). If
// there is no repository, it ends at the root of the file system. Returns
// nullopt if no file is found.
std::optional<std::string> FindProject(const std::string& directory);
// Reads a project file. A path in the file that leads out of the project's
// repository is a finding unless `allow_outside` is true. `texts`, if not null,
// has texts that replace the content of files, such as an editor's unsaved
// buffers. Returns nullopt after a finding.
std::optional<Project> ReadProject(const std::string& path, Findings& findings,
                                   const FileTexts* texts = nullptr,
                                   bool allow_outside = false);
// Reads a config.json. Sizes beyond their limits and sizes that contradict each
// other are findings. Returns nullopt after a finding.
std::optional<ModelConfig> ReadModelConfig(const std::string& path,
                                           Findings& findings);
// Reads a config.json from a document whose root is an object, with the same
// checks as for a path.
std::optional<ModelConfig> ReadModelConfig(const JsonDocument& document,
                                           Findings& findings);

// Parses the project file of the target again and reads its `audit` section:
//
//   audit: {program: build/step.hlo.txt, locked: llama.audit.json,
//           budget: {total: 12GiB, all_gather: {tp: 0, dp+fsdp: 1GiB}}}
//
// Paths are made relative to the working directory. A path that leads out of
// the project's repository is a finding unless `allow_outside`. `collectives`
// has the names of the collectives that a budget may limit. Returns nullopt if
// the target has no `audit`, and after a finding.
std::optional<AuditInput> ReadTargetAudit(
    const Target& target, std::span<const std::string_view> collectives,
    bool allow_outside, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_PROJECT_H_
