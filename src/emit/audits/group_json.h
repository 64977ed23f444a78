// Writes a collective of a compiled program and its group of devices as JSON.
#ifndef SHARDC_EMIT_AUDITS_GROUP_JSON_H_
#define SHARDC_EMIT_AUDITS_GROUP_JSON_H_

#include "audit/audit.h"
#include "source/json_writer.h"

namespace shardc {

// Writes the members `collective`, `axes` and `group_size`. `axes` is null if
// no axes of the mesh give the collective's groups of devices.
void WriteGroup(JsonWriter& json, const audit::Traffic& one);

}  // namespace shardc

#endif  // SHARDC_EMIT_AUDITS_GROUP_JSON_H_
