// Room: emit. Writes plans, findings, costs and verdicts as bytes. The
// subfolders have the writers.
// Includes: source, plan.
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

// Writes shardc.plan/v1, or v2 for a plan with stages. The member `diagnostics`
// is written only if there are findings.
void WritePlanJson(const Plan& plan, std::span<const Finding> diagnostics,
                   Sink& out);
// Writes the same bytes with several threads. With two or more threads, the
// fingerprint of a large plan is computed while the rest is written, if the
// sink can later change the bytes that it has written.
void WritePlanJson(const Plan& plan, std::span<const Finding> diagnostics,
                   FileSink& out, int threads);

// Returns the summary that `shardc plan` prints: totals, bytes per device, the
// largest replicated parameters, the parameters that each rule wins,
// corrections with their bytes, and unmatched parameters with the rule whose
// pattern is the most similar.
std::string PlanSummaryText(const Compiled& compiled);

struct TextStyle {
  bool color = false;
};
// Returns one finding as text: level, code, message, place, source line with a
// caret, labels, help.
std::string FindingText(const Finding& finding, const TextStyle& style);

}  // namespace shardc

#endif  // SHARDC_EMIT_EMIT_H_
