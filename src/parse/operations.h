// Reads settings of attention operations from a settings file (`verify
// --settings`), or one setting at a time from flags.
#ifndef SHARDC_PARSE_OPERATIONS_H_
#define SHARDC_PARSE_OPERATIONS_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "model/operation_settings.h"
#include "source/finding.h"

namespace shardc {

// The smallest soft cap that a settings file or a config.json may state. The
// value 0 is also valid, and means that there is no cap.
inline constexpr double kLeastSoftCap = 1e-3;

// Reads a settings file. `operations` are the operations that it may configure.
// A key that does not apply to its operation is a finding (schema). Returns
// nullopt after a finding.
std::optional<OperationsFile> ReadOperations(
    const std::string& path, std::span<const KnownOperation> operations,
    Findings& findings);

std::optional<OperationsFile> ParseOperations(
    SourceRef source, std::span<const KnownOperation> operations,
    Findings& findings);

// Reads settings as ReadOperations does, but from the mapping at `place` in
// another file.
std::optional<OperationsFile> ReadOperationsAt(
    const Place& place, std::span<const KnownOperation> operations,
    Findings& findings);

// Reads one setting from the text of a flag, with the checks of a settings
// file. Stores the value in `record` and returns true. Otherwise adds a finding
// whose place is in the flag's text, and returns false.
bool ReadSetting(std::string_view flag, Setting setting,
                 const std::string& text, SettingsRecord& record,
                 Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_OPERATIONS_H_
