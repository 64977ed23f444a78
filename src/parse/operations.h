// Reads settings of attention operations, from a settings file (`verify
// --settings`) or one by one from flags.
#ifndef SHARDC_PARSE_OPERATIONS_H_
#define SHARDC_PARSE_OPERATIONS_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "model/operation_settings.h"
#include "source/finding.h"

namespace shardc {

// The smallest soft cap, other than 0, that a settings file or a config.json
// may have. 0 means no cap.
inline constexpr double kLeastSoftCap = 1e-3;

// Reads a settings file, which may configure `operations`. A key that does not
// apply to its operation is a finding (schema). Returns nullopt after a
// finding.
std::optional<OperationsFile> ReadOperations(
    const std::string& path, std::span<const KnownOperation> operations,
    Findings& findings);

std::optional<OperationsFile> ParseOperations(
    SourceRef source, std::span<const KnownOperation> operations,
    Findings& findings);

// Reads settings as ReadOperations does, from a mapping inside another file.
std::optional<OperationsFile> ReadOperationsAt(
    const Place& place, std::span<const KnownOperation> operations,
    Findings& findings);

// Reads one setting from the text of a flag, with the same checks. Stores the
// value in `record`, or adds a finding that points into `flag` and returns
// false.
bool ReadSetting(std::string_view flag, Setting setting,
                 const std::string& text, SettingsRecord& record,
                 Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_OPERATIONS_H_
