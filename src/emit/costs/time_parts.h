// Writes the parts of an expected time as JSON.
#ifndef SHARDC_EMIT_COSTS_TIME_PARTS_H_
#define SHARDC_EMIT_COSTS_TIME_PARTS_H_

#include <span>

#include "cost/expected.h"
#include "source/json_writer.h"

namespace shardc {

// Writes the member `parts`: an array of objects with `name` and `seconds`.
void WriteTimeParts(JsonWriter& json, std::span<const cost::TimePart> parts,
                    JsonLayout layout = JsonLayout::kInline);

}  // namespace shardc

#endif  // SHARDC_EMIT_COSTS_TIME_PARTS_H_
