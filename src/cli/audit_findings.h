// The flaws and the growth of a compiled program as findings at lines of
// Python.
#ifndef SHARDC_CLI_AUDIT_FINDINGS_H_
#define SHARDC_CLI_AUDIT_FINDINGS_H_

#include <span>
#include <string>

#include "audit/audit.h"
#include "audit/growth.h"
#include "audit/lock.h"
#include "hlo/program.h"
#include "lint/select.h"
#include "source/finding.h"

namespace shardc::cli {

// Returns the selected findings, sorted. The place of each is the line of the
// user's Python file, whose text is read where the file exists; of a flaw
// without a line, the instruction in the program's text.
// Flaws that a committed summary has are left out.
Findings AuditFindings(const hlo::Program& program, const audit::Report& report,
                       const Selection& selection,
                       const audit::Lock* locked = nullptr);

// Returns a finding (traffic-grew) for each route, at the line that sends most
// of what is new. `committed` names the file that has less.
Findings GrowthFindings(const hlo::Program& program,
                        const audit::Report& report,
                        std::span<const audit::Growth> growth,
                        const std::string& committed);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_AUDIT_FINDINGS_H_
