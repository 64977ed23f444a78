// The stages of a pipeline that a target declares, in its rules or its own
// section of the project.
#ifndef SHARDC_TARGET_STAGES_H_
#define SHARDC_TARGET_STAGES_H_

#include <optional>
#include <string>

#include "model/project.h"
#include "plan/compile.h"
#include "plan/planned_stages.h"
#include "source/boundary.h"
#include "source/finding.h"

namespace shardc {

// Reads the declaration (parse/stages_read.h) and divides the model by it.
// `config` may be null; files must be inside `boundary`. Returns nullopt if
// nothing declares stages, and after findings: those of reading, and the codes
// of source/stage_code.h for stages that are understood and refused. `axis`, if
// not null, is set to the declared axis, also if the stages are refused.
std::optional<PlannedStages> PlanTargetStages(
    const Target& target, const Compiled& compiled, const ModelConfig* config,
    const Boundary& boundary, Findings& findings, std::string* axis = nullptr);

}  // namespace shardc

#endif  // SHARDC_TARGET_STAGES_H_
