// Directory: emit/plans. Writes plans, rules, meshes and manifests, and
// differences of plans.
// Its files include headers of these directories: source, model, match/proof,
// roles, comm, facts, plan, plan/difference, emit, emit/findings.
//
// Writes the difference of two plans or step programs as text, as JSON
// (shardc.diff/v1), and as Markdown for a comment on a pull request.
#ifndef SHARDC_EMIT_PLANS_PLAN_DIFF_H_
#define SHARDC_EMIT_PLANS_PLAN_DIFF_H_

#include "plan/difference/plan_difference.h"
#include "source/sink.h"

namespace shardc {

void WriteDiffText(const PlanDifference& diff, Sink& out);
void WriteDiffJson(const PlanDifference& diff, Sink& out);
void WriteDiffMarkdown(const PlanDifference& diff, Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_PLANS_PLAN_DIFF_H_
