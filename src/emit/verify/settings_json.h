// Writes the settings of a case's operation as JSON.
#ifndef SHARDC_EMIT_VERIFY_SETTINGS_JSON_H_
#define SHARDC_EMIT_VERIFY_SETTINGS_JSON_H_

#include "source/json_writer.h"
#include "verify/cases/case.h"

namespace shardc {

// Writes the settings as members of an object. If `all` is true, all settings
// are written, each under its key in a settings file. Otherwise only the
// settings that apply to the operation are written.
void WriteSettingsMembers(JsonWriter& json, const verify::Case& test, bool all);

}  // namespace shardc

#endif  // SHARDC_EMIT_VERIFY_SETTINGS_JSON_H_
