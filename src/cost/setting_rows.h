// The settings of a step as texts, a row each. From the rows come the options
// of `cost`, `search`, `report` and `verify step`, the keys of a target that
// set an option of `cost`, and texts of reports such as "--batch 64".
#ifndef SHARDC_COST_SETTING_ROWS_H_
#define SHARDC_COST_SETTING_ROWS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cost/settings.h"
#include "devices/profiles.h"
#include "model/axis_rules.h"
#include "model/option_value.h"
#include "source/finding.h"

namespace shardc::cost {

// A value that a user gives a setting. `place` is the place of the value in a
// file, or that of an option (FlagPlace).
struct GivenSetting {
  std::string_view flag;  // such as "--batch"
  std::string text;       // empty if the setting is not given
  Place place = {};
};

// The modes in which a setting has an effect.
enum class SettingModes : uint8_t { kAll, kTrain, kPrompts, kServing };
bool HasEffect(SettingModes modes, Mode mode);

struct SettingRow {
  std::string_view flag;   // such as "--batch"
  std::string_view value;  // the placeholder; empty for a switch
  std::string_view help;
  // Reads the value of the setting. Adds a finding if the value is wrong.
  void (*read)(const GivenSetting& given, Settings& to, Findings& findings);
  // Returns the text that read() takes; nullopt for a setting that has its
  // default or no value.
  std::optional<std::string> (*show)(const Settings& of);
  SettingModes modes = SettingModes::kAll;
  // Whether reports state the value even if it is the default.
  bool always_stated = false;
  HelpNeed need = HelpNeed::kSeldom;
  // The values that the placeholder stands for, if it is no list of them.
  std::vector<std::string_view> (*words)() = nullptr;
};

// All settings, in the order of `cost --help`.
std::span<const SettingRow> SettingRows();
// Returns the row of a flag such as "--batch", which must exist.
const SettingRow& SettingRowOf(std::string_view flag);

// Reads the given values into `base`, the settings that hold without them.
// Settings that have no effect in the mode are read too, so that wrong values
// are found. Returns nullopt after findings.
std::optional<Settings> ReadSettings(std::span<const GivenSetting> given,
                                     Mode mode, Settings base,
                                     Findings& findings);
// Reads the value of one option. Returns false after a finding. An empty text
// leaves the settings unchanged.
bool ReadSetting(std::string_view flag, const std::string& text, Settings& to,
                 Findings& findings);

// Returns the profile of a known accelerator, or reads a profile from a file.
// Returns null for an empty name. If `name` is neither a known accelerator nor
// a file with a profile, adds a finding and returns null.
std::shared_ptr<const DeviceProfile> ReadProfile(const std::string& name,
                                                 Findings& findings);

// The settings that StatedSettings() returns: all with a value, or those that
// differ from their defaults, without the ones that reports always state.
enum class Stated : uint8_t { kAll, kChanges };
// Returns the settings that have an effect in the mode as options of `cost`,
// such as "--grad-dtype F32", in the order of the rows.
std::vector<std::string> StatedSettings(const Settings& settings, Mode mode,
                                        Stated stated);

}  // namespace shardc::cost

#endif  // SHARDC_COST_SETTING_ROWS_H_
