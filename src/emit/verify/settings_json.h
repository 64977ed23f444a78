// The settings of a case's operation.
#ifndef SHARDC_EMIT_VERIFY_SETTINGS_JSON_H_
#define SHARDC_EMIT_VERIFY_SETTINGS_JSON_H_

#include "source/json_writer.h"
#include "verify/cases/case.h"

namespace shardc {

// Members of an object: every setting under the key that a settings file has
// for it, or those alone that the operation takes.
void WriteSettingsMembers(JsonWriter& json, const verify::Case& test, bool all);

}  // namespace shardc

#endif  // SHARDC_EMIT_VERIFY_SETTINGS_JSON_H_
