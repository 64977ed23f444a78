// A settings file of attention operations (`verify --settings`), and single
// settings as flags give them.
#ifndef SHARDC_PARSE_OPERATIONS_H_
#define SHARDC_PARSE_OPERATIONS_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "model/operation_settings.h"
#include "source/finding.h"

namespace shardc {

// `operations` are those that the file may speak of. A key without a meaning
// for its operation is a finding (schema).
std::optional<OperationsFile> ReadOperations(
    const std::string& path, std::span<const KnownOperation> operations,
    Findings& findings);

std::optional<OperationsFile> ParseOperations(
    SourceRef source, std::span<const KnownOperation> operations,
    Findings& findings);

// The same in place, a mapping inside another file.
std::optional<OperationsFile> ReadOperationsAt(
    const Place& place, std::span<const KnownOperation> operations,
    Findings& findings);

// One setting as text, by the file's rules: the value goes to `record`, or a
// finding points into `flag`.
bool ReadSetting(std::string_view flag, Setting setting,
                 const std::string& text, SettingsRecord& record,
                 Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_OPERATIONS_H_
