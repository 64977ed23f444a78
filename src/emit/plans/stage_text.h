// Writes the pipeline stages that hold a parameter, for `shardc explain`.
#ifndef SHARDC_EMIT_PLANS_STAGE_TEXT_H_
#define SHARDC_EMIT_PLANS_STAGE_TEXT_H_

#include <cstddef>
#include <string>

#include "plan/planned_stages.h"

namespace shardc {

class JsonWriter;

// Returns a line for each stage of the parameter: "stage 2 of 4 over `pp`, on
// rank 2".
std::string StageLines(const PlannedStages& stages, size_t param);

// Writes the member "stages": {"axis", "of": [{"stage", "ranks", "layers"}]}.
// "layers" is written only for a tensor of stacked layers.
void WriteParamStages(JsonWriter& json, const PlannedStages& stages,
                      size_t param);

}  // namespace shardc

#endif  // SHARDC_EMIT_PLANS_STAGE_TEXT_H_
