// Divides a compiled model into the stages that its inputs declare.
#ifndef SHARDC_PLAN_DIVIDE_H_
#define SHARDC_PLAN_DIVIDE_H_

#include "model/project.h"
#include "model/stages.h"
#include "plan/compile.h"
#include "source/finding.h"

namespace shardc {

// Sets the stages of the compiled model and of its plan, and the plan's totals
// of bytes by rank and per device. `config` may be null. It states the fraction
// of the experts that a token uses. If the stages are refused, the model gets
// no stages, and `compiled.stage_findings` has the reasons: the findings of
// DeclaredRequest and of DivideIntoStages. `reads` records which files were
// read.
// read.
void DivideByStages(const StageDeclaration& declared, const ModelConfig* config,
                    Compiled& compiled, Findings& reads);

}  // namespace shardc

#endif  // SHARDC_PLAN_DIVIDE_H_
