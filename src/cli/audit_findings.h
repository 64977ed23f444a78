// The flaws of a compiled program as findings at lines of Python.
#ifndef SHARDC_CLI_AUDIT_FINDINGS_H_
#define SHARDC_CLI_AUDIT_FINDINGS_H_

#include "audit/audit.h"
#include "hlo/program.h"
#include "lint/select.h"
#include "source/finding.h"

namespace shardc::cli {

// Returns the selected findings, sorted. The place of each is the line of the
// user's Python file, whose text is read where the file exists; of a flaw
// without a line, the instruction in the program's text.
Findings AuditFindings(const hlo::Program& program, const audit::Report& report,
                       const Selection& selection);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_AUDIT_FINDINGS_H_
