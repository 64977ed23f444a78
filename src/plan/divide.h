// Divides a compiled model into the pipeline stages that its inputs declare.
#ifndef SHARDC_PLAN_DIVIDE_H_
#define SHARDC_PLAN_DIVIDE_H_

#include "model/project.h"
#include "model/stages.h"
#include "plan/compile.h"
#include "source/finding.h"

namespace shardc {

// Sets the stages of the compiled model and of its plan, and the plan's totals
// of bytes by rank and per device. If the model cannot be divided, it gets no
// stages, and the errors of DeclaredRequest or DivideIntoStages are stored in
// `compiled.stage_findings`.
//
// `config` states which fraction of the experts a token uses. The work of a
// layer with experts is estimated from this fraction. If `config` is null, all
// experts are counted. The files that were read are noted in `reads`, but no
// errors are added to it.
void DivideByStages(const StageDeclaration& declared, const ModelConfig* config,
                    Compiled& compiled, Findings& reads);

}  // namespace shardc

#endif  // SHARDC_PLAN_DIVIDE_H_
