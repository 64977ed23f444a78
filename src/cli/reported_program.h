// Reads the compiled program for the page of `shardc report` and compares it
// with the plan.
#ifndef SHARDC_CLI_REPORTED_PROGRAM_H_
#define SHARDC_CLI_REPORTED_PROGRAM_H_

#include <memory>
#include <optional>
#include <string>

#include "audit/audit.h"
#include "cli/cost_flags.h"
#include "cli/plan_table.h"
#include "emit/audits/audit_report.h"
#include "emit/report/report.h"
#include "hlo/program.h"
#include "lint/rules/lint.h"
#include "lint/select.h"
#include "model/project.h"
#include "source/finding.h"

namespace shardc::cli {

// A compiled program, its audit, and how it differs from the plan and from the
// step program of the plan. Members have references to other members of the
// same object.
struct ReportedProgram {
  std::string from;  // name of the program's file
  hlo::Program program;
  std::shared_ptr<const DeviceProfile> profile;
  std::optional<audit::Report> report;
  AuditText compared;
  Findings findings;
  // The findings about the target's budget, one for each limit that the
  // target's program exceeds, as `check` reports them. Empty for a program of
  // `--program`.
  FindingSink over_budget;

  report::Program ForPage() const;
  // Returns whether `shardc audit` of the same files would exit with status 1.
  bool Fails(const Selection& selection) const;
};

struct ProgramFlags {
  std::string program, step;
};

// Reads the program of `--program` or, without this option, the target's
// program if it has been compiled. Compares it with the plan, and with the step
// program of `--step`, in the mode of `flags`. Sets `out` to null if there is
// no program. Returns false after a finding.
bool ReadReportedProgram(const ProgramFlags& files, const CostFlags& flags,
                         const Target& target, const Planned& planned,
                         const Selection& selection,
                         std::unique_ptr<const ReportedProgram>& out,
                         Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_REPORTED_PROGRAM_H_
