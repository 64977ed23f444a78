// Checks the compiled program of a target against the target's budget and its
// committed summary.
#ifndef SHARDC_CLI_TARGET_AUDIT_H_
#define SHARDC_CLI_TARGET_AUDIT_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "audit/audit.h"
#include "audit/growth.h"
#include "cli/cost_flags.h"
#include "cost/pipeline.h"
#include "hlo/program.h"
#include "lint/rules/lint.h"
#include "lint/run.h"
#include "model/mesh.h"
#include "model/project.h"
#include "source/finding.h"

namespace shardc::cli {

// A program and its audit. The report has references to the program.
struct TargetProgram {
  hlo::Program program;
  std::optional<audit::Report> report;
};

// Reads the section `audit` of the target (ReadTargetAudit).
std::optional<AuditInput> ReadAuditInput(const Target& target,
                                         bool allow_outside,
                                         Findings& findings);

// Reads and audits the target's program on its mesh. Returns null after a
// finding.
std::unique_ptr<const TargetProgram> ReadTargetProgram(const Target& target,
                                                       const AuditInput& audit,
                                                       const Mesh& mesh,
                                                       Findings& findings);

// Returns the selected findings about a target's program:
// - one for each limit of the budget that the program exceeds
// - one for each flaw that the committed summary does not list
// - with `locked`, one for each kind of collective and its mesh axes on which a
//   device sends more bytes than the summary records
//
// The program may not have been compiled yet. If its file does not exist,
// nothing is checked, but with `locked` this is an error.
FindingSink CheckProgram(const Target& target, const AuditInput& audit,
                         const Mesh& mesh, bool locked,
                         const Selection& selection, Findings& errors);

// Returns a line for each difference between the committed summary and the
// program. Returns nullopt after a finding.
std::optional<std::vector<std::string>> SummaryChanges(
    const Target& target, const AuditInput& audit, const TargetProgram& program,
    Findings& findings);

// Caches the bytes that each program sends. Without it, the language server
// would read a program again at each keystroke. Several threads may use it.
class ProgramSums {
 public:
  // Returns the bytes that the target's program sends, summed for each kind of
  // collective and its mesh axes, and in total. Returns null if the program
  // does not exist or cannot be read.
  std::shared_ptr<const audit::Sums> Of(const Target& target,
                                        const AuditInput& audit,
                                        const Mesh& mesh);

 private:
  struct Known {
    std::uintmax_t size = 0;
    std::filesystem::file_time_type time;
    std::shared_ptr<const audit::Sums> sums;
  };
  std::mutex mutex_;
  // Keyed by the program's file and the mesh.
  std::map<std::pair<std::string, std::string>, Known> known_;
};

// Adds an error for each limit with an axis that the mesh lacks. No program can
// send bytes over such an axis, so the name is probably wrong. The usual names
// of axes (dp, fsdp, ...) are accepted even if the mesh lacks the axis.
void CheckBudgetAxes(const AuditInput& audit, const Mesh& mesh,
                     Findings& findings);

// Returns a finding for each limit that the program exceeds, at the limit's
// line in the project file. Returns no findings if `selection` excludes SHD611.
FindingSink BudgetFindings(const AuditInput& audit, const audit::Sums& sums,
                           const Selection& selection);

// Returns the path of the figures that are committed next to a plan:
// plans/a.plan.json -> plans/a.cost.json.
std::string CostLockPath(const std::string& plan);

// Returns the figures that `cost` prints for the target in the budget's mode.
// Returns nullopt after a finding.
std::optional<cost::StepFigures> FiguresOfTarget(const Target& target,
                                                 const StagedTarget& compiled,
                                                 Findings& findings);

// Returns one finding (over-step-budget) for each figure that exceeds a limit
// of the budget, or that is not known or only a lower bound. The finding is
// placed at the limit. The growth of figures is compared if they are committed;
// with `locked`, it is an error if they are not. Errors in the target's step
// options are added to `errors`.
FindingSink CheckStepBudget(const Target& target, const StagedTarget& compiled,
                            bool locked, const Selection& selection,
                            Findings& errors);

// Returns a line for each figure that differs from the committed one. Returns
// nullopt after a finding.
std::optional<std::vector<std::string>> FigureChanges(
    const Target& target, const cost::StepFigures& now, Findings& findings);

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

#endif  // SHARDC_CLI_TARGET_AUDIT_H_
