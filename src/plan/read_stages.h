// Reads the pipeline stages of a plan from its JSON.
#ifndef SHARDC_PLAN_READ_STAGES_H_
#define SHARDC_PLAN_READ_STAGES_H_

#include <optional>

#include "model/mesh.h"
#include "plan/plan_stages.h"
#include "plan/read.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc {

// Reads the member `stages` of a plan. On failure, returns nullopt and adds a
// finding. Its code is schema, unknown-name for an axis that the mesh lacks, or
// limit for an axis of too many ranks.
std::optional<PlanStages> ReadPlanStages(const JsonValue& value,
                                         const Mesh& mesh, Findings& findings);

// Reads the member `stages` (a list of numbers) or the member `slices` (an
// object) of a parameter. On failure, returns false and adds a finding with the
// code schema.
bool ReadParamStages(const JsonValue& value, const PlanStages& stages,
                     ParamStages& out, Findings& findings);

// Checks that the parameter has at least one stage and that its specs do not
// use the axis of the stages. If the parameter holds a layer stack, also checks
// that its stages together have all layers. On failure, returns false and adds
// a finding with the code schema at `name`.
bool CheckParamStages(const JsonValue& name, const PlanStages& stages,
                      const ReadParam& param, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PLAN_READ_STAGES_H_
