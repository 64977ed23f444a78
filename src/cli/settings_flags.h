// The settings of `verify`'s operations. In order of precedence: options, the
// record of the operation in --settings FILE, the file's defaults, the model's
// config.json.
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

// The target's `settings` file; empty if it has none. Findings: errors in the
// file.
std::optional<OperationsFile> TargetSettings(
    const VerifyInput& input, std::span<const KnownOperation> operations,
    Findings& findings);

// Sets `request.records`, `features` and `remarks` for the request's
// operations. Without --settings, the target's file is read. Findings: errors
// in the file or in an option, an option that no operation of the request uses,
// an axis that the mesh lacks.
bool ChooseSettings(const SettingsFlags& flags, const VerifyInput& input,
                    const ModelConfig* model, const Mesh& mesh,
                    verify::Request& request, Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_SETTINGS_FLAGS_H_
