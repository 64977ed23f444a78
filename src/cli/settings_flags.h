// The settings of `verify`'s operations. From the highest to the lowest
// precedence, they come from options, the record of the operation in --settings
// FILE, the file's defaults, and the model's config.json.
#ifndef SHARDC_CLI_SETTINGS_FLAGS_H_
#define SHARDC_CLI_SETTINGS_FLAGS_H_

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "cli/command.h"
#include "model/operation_settings.h"
#include "model/project.h"
#include "source/finding.h"
#include "verify/cases/matrix.h"

namespace shardc::cli {

struct SettingsFlags {
  std::string file;
  std::array<std::optional<std::string>, kSettingNames.size()> texts;
};

Options OptionsOf(SettingsFlags& flags);

// Returns the settings of a target, which are in a file or in the project file.
// If the target has no settings, the result is empty. Returns nullopt after
// findings about errors in the settings.
std::optional<OperationsFile> TargetSettings(
    const VerifyInput& input, std::span<const KnownOperation> operations,
    Findings& findings);

// Sets `request.records` to the settings of the request's operations. Also sets
// what depends on the model: whether attention has sinks, the rotation of keys
// (RoPE), and the remarks on settings of the model. Without --settings, the
// target's settings are read. Returns false after a finding: an error in the
// file or in an option, an option that no operation of the request uses, or an
// axis that the mesh lacks.
bool ChooseSettings(const SettingsFlags& flags, const VerifyInput& input,
                    const ModelConfig* model, const Mesh& mesh,
                    verify::Request& request, Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_SETTINGS_FLAGS_H_
