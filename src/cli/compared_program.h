// Compares a compiled program with a plan and with the plan's step program, for
// `audit` and `report`.
#ifndef SHARDC_CLI_COMPARED_PROGRAM_H_
#define SHARDC_CLI_COMPARED_PROGRAM_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "audit/audit.h"
#include "audit/difference.h"
#include "cli/command.h"
#include "cli/cost_flags.h"
#include "cli/planned.h"
#include "cost/communication.h"
#include "cost/inputs.h"
#include "cost/report.h"
#include "cost/settings.h"
#include "emit/audits/audit_report.h"
#include "emit/report/report.h"
#include "hlo/program.h"
#include "lint/analysis/topic.h"
#include "lint/rules/lint.h"
#include "lint/run.h"
#include "model/axis_rules.h"
#include "model/project.h"
#include "plan/compile.h"
#include "program/facts.h"
#include "program/program.h"
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

  report::Program ForPage() const;
  // Returns whether `shardc audit` of the same files would exit with status 1.
  bool Fails(const Selection& selection) const;
};

struct ProgramFlags {
  std::string program, step;
};

// Reads the program of `--compiled` or, without this option, the target's
// program if it has been compiled. Compares it with the plan, and with the step
// program of `--step`, in the mode of `flags`. Sets `out` to null if there is
// no program. Returns false after a finding.
bool ReadReportedProgram(const ProgramFlags& files, const CostFlags& flags,
                         const Target& target, const Planned& planned,
                         const Selection& selection,
                         std::unique_ptr<const ReportedProgram>& out,
                         Findings& findings);

// Returns the report of `cost`. If a step program can be made from the rules'
// description of the model, the report has the communication of this program.
// `compiled` is null if the plan was read from a file, which does not describe
// the model.
cost::Report CostOf(const Compiled* compiled,
                    const std::optional<ModelConfig>& model,
                    const cost::CostInputs& work,
                    const cost::Settings& settings);

// Prints the collectives of the parameter and of its gradient in a compiled
// program. Also prints whether the program shards the parameter as
// the plan does. Returns the exit status.
int ExplainProgram(const SourceRef& source, const Compiled& compiled,
                   size_t param, const Common& common, Findings& findings);

// Reads a traced program. Returns nullopt after a finding.
std::optional<program::TracedProgram> ReadTraced(const SourceRef& source,
                                                 Findings& findings);

// Reads the traced program of a file. Returns nullopt after a finding.
std::optional<program::TracedProgram> ReadTracedFile(const std::string& path,
                                                     Findings& findings);

// Prints what a traced program shows about the parameter `name`, or about
// all parameters if the name is empty. Returns the exit status.
int ExplainTraced(const SourceRef& source, const std::string& name,
                  const Common& common, Findings& findings);
// Prints what the description of the model's family states about the parameter
// `name`, or about all parameters if the name is empty. Returns the exit
// status.
int ExplainDescribed(const Target& target, const std::string& name,
                     const Common& common, Findings& findings);

// Returns the selected findings about specs that the program contradicts, with
// the lines of the user's code. They have the codes of the lints that report
// the same from names: SHD220, SHD230, SHD214, SHD215 and SHD237; SHD218 is
// about programs alone. Parameters that the program lacks, or has in another
// shape, are left out.
FindingSink ProgramFindings(const program::TracedProgram& traced,
                            const Facts& facts, const Selection& selection);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_COMPARED_PROGRAM_H_
