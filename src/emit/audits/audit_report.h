// Directory: emit/audits. Writes what compiled programs send.
// Its files include headers of these directories: source, audit, emit/findings,
// emit/costs.
//
// Writes an audit as text and as JSON (`shardc.audit/v1`).
#ifndef SHARDC_EMIT_AUDITS_AUDIT_REPORT_H_
#define SHARDC_EMIT_AUDITS_AUDIT_REPORT_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "audit/audit.h"
#include "audit/drift.h"
#include "audit/growth.h"
#include "audit/table.h"
#include "emit/audits/difference_report.h"
#include "source/finding.h"
#include "source/sink.h"

namespace shardc {

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

}  // namespace shardc

#endif  // SHARDC_EMIT_AUDITS_AUDIT_REPORT_H_
