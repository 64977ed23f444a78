// The difference of two plans: for the terminal, for programs
// (`shardc.diff/v1`) and for a comment in a pull request.
#ifndef SHARDC_EMIT_PLANS_PLAN_DIFF_H_
#define SHARDC_EMIT_PLANS_PLAN_DIFF_H_

#include "plan/diff.h"
#include "source/sink.h"

namespace shardc {

void WriteDiffText(const PlanDiff& diff, Sink& out);
void WriteDiffJson(const PlanDiff& diff, Sink& out);
void WriteDiffMarkdown(const PlanDiff& diff, Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_PLANS_PLAN_DIFF_H_
