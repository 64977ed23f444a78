// Reads the stages of a plan from its JSON.
#ifndef SHARDC_PLAN_READ_STAGES_H_
#define SHARDC_PLAN_READ_STAGES_H_

#include <optional>

#include "model/mesh.h"
#include "plan/plan_stages.h"
#include "plan/read.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc {

// Reads the member `stages` of a plan. Findings: schema, and unknown-name for
// an axis that the mesh lacks.
std::optional<PlanStages> ReadPlanStages(const JsonValue& value,
                                         const Mesh& mesh, Findings& findings);

// Reads the member `stages` (a list of numbers) or `slices` (an object) of a
// parameter. Returns false after a finding (schema).
bool ReadParamStages(const JsonValue& value, const PlanStages& stages,
                     ParamStages& out, Findings& findings);

// Whether a parameter has a stage, layers that its shape has, and a spec that
// does not use the axis of the stages. Returns false after a finding (schema)
// at `name`.
bool CheckParamStages(const JsonValue& name, const PlanStages& stages,
                      const ReadParam& param, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PLAN_READ_STAGES_H_
