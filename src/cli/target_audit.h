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

// A program and its audit. The report has references to the program.
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

// Returns the selected findings. There is one for each limit of the budget that
// the program exceeds, and one for each flaw that the committed summary does
// not list. With `locked`, there is also one for each kind of collective and
// its mesh axes on which a device sends more bytes than the summary records. If
// the program's file does not exist, `locked` makes that an error. Without
// `locked` nothing is checked then, because the program may not have been
// compiled yet.
FindingSink CheckProgram(const Target& target, const AuditInput& audit,
                         const Mesh& mesh, bool locked,
                         const Selection& selection, Findings& errors);

// Returns a line for each difference between the committed summary and the
// program. Returns nullopt after a finding.
std::optional<std::vector<std::string>> SummaryChanges(
    const Target& target, const AuditInput& audit, const TargetProgram& program,
    Findings& findings);

// Caches the bytes that each program sends, so that the language server does
// not read a program again at each keystroke. Several threads may use it.
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
  // Keyed by the file and the mesh.
  std::map<std::pair<std::string, std::string>, Known> known_;
};

// Adds an error for each limit whose axis the mesh lacks, because no program
// can send bytes over such an axis. The usual names of axes (dp, fsdp, ...) are
// accepted even if the mesh lacks the axis.
void CheckBudgetAxes(const AuditInput& audit, const Mesh& mesh,
                     Findings& findings);

// Returns a finding for each limit that the program exceeds, at the limit's
// line in the project file. Returns no findings if `selection` excludes SHD611.
FindingSink BudgetFindings(const AuditInput& audit, const audit::Sums& sums,
                           const Selection& selection);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_TARGET_AUDIT_H_
