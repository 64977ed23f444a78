// The compiled program of a target: its budget and its committed summary.
#ifndef SHARDC_CLI_TARGET_AUDIT_H_
#define SHARDC_CLI_TARGET_AUDIT_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "audit/audit.h"
#include "audit/budget.h"
#include "hlo/program.h"
#include "lint/rules/lint.h"
#include "lint/select.h"
#include "model/audit_input.h"
#include "model/mesh.h"
#include "model/project.h"
#include "source/finding.h"

namespace shardc::cli {

// A program and its audit; the report refers to the program.
struct TargetProgram {
  hlo::Program program;
  std::optional<audit::Report> report;
};

// Reads and audits the target's program on its mesh. Returns null after a
// finding.
std::unique_ptr<const TargetProgram> ReadTargetProgram(const Target& target,
                                                       const AuditInput& audit,
                                                       const Mesh& mesh,
                                                       Findings& findings);

// Returns the selected findings: one for each limit of the budget that the
// program exceeds, and for each flaw that the committed summary does not list.
// With `locked`, also returns one for each kind of collective and the axes that
// it runs over, if a device sends more bytes than the summary records. If the
// file of the program does not exist, `locked` makes that an error; without
// `locked` nothing is checked, because the program may not have been compiled
// yet.
FindingSink CheckProgram(const Target& target, const AuditInput& audit,
                         const Mesh& mesh, bool locked,
                         const Selection& selection, Findings& errors);

// Returns a line for each difference of the committed summary and the program;
// nullopt after a finding.
std::optional<std::vector<std::string>> SummaryChanges(
    const Target& target, const AuditInput& audit, const TargetProgram& program,
    Findings& findings);

// Caches the bytes that each program communicates, so that the language server
// does not read a program again at each keystroke. Thread-safe.
class ProgramSums {
 public:
  // Returns the sums of the target's program; null if the program does not
  // exist or cannot be read.
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
  std::map<std::pair<std::string, std::string>, Known> known_;  // file, mesh
};

// Adds an error for each limit on the bytes sent over an axis that the mesh
// lacks, because no program could exceed it. The usual names of axes (dp, fsdp,
// ...) are accepted even if the mesh lacks the axis.
void CheckBudgetAxes(const AuditInput& audit, const Mesh& mesh,
                     Findings& findings);

// Returns a finding for each limit that the program exceeds, at the limit's
// line in the project file. Returns none if `selection` leaves out SHD611.
FindingSink BudgetFindings(const AuditInput& audit, const audit::Sums& sums,
                           const Selection& selection);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_TARGET_AUDIT_H_
