// Compares a compiled program with a plan and with the plan's step program, for
// `audit` and `report`.
#ifndef SHARDC_CLI_COMPARED_STEP_H_
#define SHARDC_CLI_COMPARED_STEP_H_

#include <optional>
#include <string>

#include "audit/audit.h"
#include "audit/planned_step.h"
#include "emit/audits/audit_report.h"
#include "hlo/program.h"
#include "model/axis_rules.h"
#include "source/finding.h"

namespace shardc::cli {

// Reads the step program of the option `--step` for a mode. Returns nullopt
// after a finding.
std::optional<audit::PlannedStep> ReadStepFile(const std::string& path,
                                               Mode mode, Findings& findings);

// Sets `how.compared` to the step and its differences from the program. A
// difference may be caused by an argument that the program shards in another
// way than the plan. `how.drifts` lists such arguments. `report` must have a
// mesh. Returns false after a finding, for example if the step has another
// mesh.
bool CompareWithStep(const hlo::Program& program, const audit::Report& report,
                     audit::PlannedStep step, AuditText& how,
                     Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_COMPARED_STEP_H_
