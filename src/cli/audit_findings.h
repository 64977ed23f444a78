// Converts the results of an audit to findings at lines of Python files. The
// results are flaws of a program, and collectives that send more than before.
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

// Returns the flaws (the mistakes that the audit found in the program) as
// findings, sorted. Flaws that `selection` excludes or that the committed
// summary `locked` lists are left out. A finding is placed at a line of the
// user's Python file, which is read if it exists. If the flaw has no source
// line, the finding is placed at the instruction in the program's text.
Findings AuditFindings(const hlo::Program& program, const audit::Report& report,
                       const Selection& selection,
                       const audit::Lock* locked = nullptr);

// Returns a finding (traffic-grew) for each route (a kind of collective and
// its mesh axes) that sends more bytes than before. The finding's place is the
// line of the collective that causes most of the growth, or the program if no
// line is known. `committed` names the file that records the earlier bytes.
Findings GrowthFindings(const hlo::Program& program,
                        const audit::Report& report,
                        std::span<const audit::Growth> growth,
                        const std::string& committed);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_AUDIT_FINDINGS_H_
