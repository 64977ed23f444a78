// Divides a compiled model into the stages that its inputs declare.
#ifndef SHARDC_PLAN_DIVIDE_H_
#define SHARDC_PLAN_DIVIDE_H_

#include "model/project.h"
#include "model/stages.h"
#include "plan/compile.h"
#include "source/finding.h"

namespace shardc {

// Sets the compiled model's stages, those of its plan, and the plan's bytes by
// rank. `config`, if not null, gives the part of the experts that a token uses.
// If the stages are refused, there are none, and `compiled.stage_findings` has
// the reasons: those of DeclaredRequest and of DivideIntoStages. `reads` notes
// which files were read.
void DivideByStages(const StageDeclaration& declared, const ModelConfig* config,
                    Compiled& compiled, Findings& reads);

}  // namespace shardc

#endif  // SHARDC_PLAN_DIVIDE_H_
