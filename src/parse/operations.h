// Reads settings of attention operations from a settings file (`verify
// --settings`), or one setting at a time from flags.
#ifndef SHARDC_PARSE_OPERATIONS_H_
#define SHARDC_PARSE_OPERATIONS_H_

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/operation_settings.h"
#include "source/finding.h"
#include "source/source.h"

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

struct MeasuredRun {
  std::string name;  // the file's name if the run states none
  std::string mesh, manifest, model;
  std::vector<std::string> rules;
  // `options` has the given options of `cost` that take a value, such as
  // {"--grad-dtype", "float32"}. `flags` has the names of the given options
  // that take no value.
  std::vector<std::pair<std::string, std::string>> options;
  std::vector<std::string> flags;
  // The place of each value in the file, keyed by the option of `cost`, such as
  // `--mesh`.
  std::map<std::string, Place> places;
  // The measured time. Exactly one of the two members is set.
  std::optional<double> step_s, tokens_per_second_per_device;
  Place place;  // place of the time in the file
};

// Reads the file. Paths in the file are relative to its folder. They are
// returned relative to the working directory. Returns nullopt after a finding.
std::optional<MeasuredRun> ParseMeasuredRun(SourceRef source,
                                            Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_OPERATIONS_H_
