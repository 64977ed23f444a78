// Directory: emit/audits. Writes what compiled programs send.
// Its files include headers of these directories: source, audit, emit/findings,
// emit/costs.
//
// Writes an audit as text and as JSON (`shardc.audit/v1`).
#ifndef SHARDC_EMIT_AUDITS_AUDIT_REPORT_H_
#define SHARDC_EMIT_AUDITS_AUDIT_REPORT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "audit/audit.h"
#include "audit/difference.h"
#include "audit/drift.h"
#include "audit/growth.h"
#include "source/finding.h"
#include "source/json_writer.h"
#include "source/sink.h"

namespace shardc {

// The planned step that a compiled program was compared with, and the
// differences.
struct StepCompared {
  audit::PlannedStep step;
  audit::Difference difference;
};

// Returns how the compiled program differs from the planned step for one kind
// of collective and its axes: "equal", "missing", "extra", "less" or "more".
std::string_view StatusText(const audit::RouteCompared& one);
// Returns the names of the applied rewrites, such as "sliced, joined". A
// rewrite replaces collectives by equivalent ones before the comparison:
// `sliced` turns an all_reduce with a slice into a reduce_scatter.
std::string RewritesText(uint8_t rewrites);
std::string DifferenceText(const StepCompared& compared);
// Writes the member `difference` with the step's settings and differences.
void WriteDifferenceMembers(JsonWriter& json, const StepCompared& compared);
// Writes `{"file", "line", "function"}`, or null if the file is not known.
void WriteSourceLine(JsonWriter& json, const hlo::SourceLine& line);

struct AuditText {
  audit::By by = audit::By::kAll;
  // The traffic that grew since an earlier audit; nullopt if there is no
  // earlier audit.
  std::optional<std::vector<audit::Growth>> growth = std::nullopt;
  // The comparison of the shardings of the program's arguments with a plan;
  // nullopt if no plan is given.
  std::optional<audit::Drifts> drifts = std::nullopt;
  // The comparison of the program's collectives with the collectives that
  // shardc plans for the step; nullopt if no step program is given.
  std::optional<StepCompared> compared = std::nullopt;
  // What the user's traced program needs, by lines; nullopt if none is given.
  std::optional<std::vector<audit::LineNeeds>> needs = std::nullopt;
  // The errors and warnings about the program. They are added to the JSON, and
  // AuditReportText() does not print them.
  std::span<const Finding> findings = {};
};

// Returns how the report's total is related to the bytes that a run sends:
// "exact", "at_most", "at_least" or "unknown".
std::string_view BoundName(const audit::Report& report);
std::string AuditReportText(const audit::Report& report, const AuditText& how);
void WriteAuditJson(const audit::Report& report, const AuditText& how,
                    Sink& out);

// Writes the committed summary of an audit (`shardc.audit-lock/v1`): the bytes
// that a program sends, and the mistakes that the audit finds in it. Line
// numbers and the number of collectives are left out, because another version
// of the compiler may change both.

void WriteAuditLock(const audit::Report& report, bool scheduled, Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_AUDITS_AUDIT_REPORT_H_
