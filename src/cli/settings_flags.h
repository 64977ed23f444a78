// `verify`'s settings of operations: --settings FILE, single flags, and a
// model's config.json, the first to speak winning in the order flag, the
// file's record, the file's defaults, the model.
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

// What a target's `settings` say; empty where it has none. Findings: what is
// wrong with the file.
std::optional<OperationsFile> TargetSettings(
    const VerifyInput& input, std::span<const KnownOperation> operations,
    Findings& findings);

// Without --settings the target's are read. Fills `request.records`, `features`
// and `remarks` for its operations. Findings: what is wrong with the file or a
// flag, a flag that no operation of the request takes, an axis that the mesh
// lacks.
bool ChooseSettings(const SettingsFlags& flags, const VerifyInput& input,
                    const ModelConfig* model, const Mesh& mesh,
                    verify::Request& request, Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_SETTINGS_FLAGS_H_
