// Room: emit. Plans, findings and verdicts to bytes, one file per format, in
// inner rooms. Knows source, model, comm, plan and the result types of lint,
// exec and verify.
#ifndef SHARDC_EMIT_EMIT_H_
#define SHARDC_EMIT_EMIT_H_

#include <span>
#include <string>

#include "plan/plan.h"
#include "source/finding.h"
#include "source/sink.h"

namespace shardc {

class FileSink;
struct Compiled;

// shardc.plan/v1, with `diagnostics` when there are findings to carry.
void WritePlanJson(const Plan& plan, std::span<const Finding> diagnostics,
                   Sink& out);
// The same bytes; with two threads or more the digest at the head is computed
// beside a large plan's body.
void WritePlanJson(const Plan& plan, std::span<const Finding> diagnostics,
                   FileSink& out, int threads);

// What `plan` tells people: totals, bytes per device, the largest replicated
// parameters, hits per rule, corrections with their bytes, the unmatched with
// the nearest rule.
std::string PlanSummaryText(const Compiled& compiled);

struct TextStyle {
  bool color = false;
};
// One finding as people read it: level, code, message, place, source line
// with a caret, labels, help.
std::string FindingText(const Finding& finding, const TextStyle& style);

}  // namespace shardc

#endif  // SHARDC_EMIT_EMIT_H_
