// Writes a collective of a compiled program and its group of devices as JSON.
#ifndef SHARDC_EMIT_AUDITS_GROUP_JSON_H_
#define SHARDC_EMIT_AUDITS_GROUP_JSON_H_

#include "audit/audit.h"
#include "source/json_writer.h"

namespace shardc {

// Writes the members `collective`, `axes` and `group_size`. `axes` is null if
// the collective's groups of devices are not the groups along any axes of the
// mesh.
void WriteGroup(JsonWriter& json, const audit::Traffic& one);

}  // namespace shardc

#endif  // SHARDC_EMIT_AUDITS_GROUP_JSON_H_
