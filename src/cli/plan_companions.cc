#include "cli/plan_companions.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include "cli/check_targets.h"
#include "cli/committed_step.h"
#include "cli/target_audit.h"
#include "emit/audits/audit_report.h"
#include "emit/costs/cost_report.h"
#include "emit/plans/plan_diff.h"
#include "emit/verify/step_json.h"
#include "lint/baseline.h"
#include "plan/fingerprint.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

// Returns whether `check` would read a compiled program of the target. Reading
// a program takes long, so the summary of a plan does not count the findings
// about it.
bool HasProgram(const Target& target, bool allow_outside) {
  Findings unread;
  std::error_code error;
  const auto audit = ReadAuditInput(target, allow_outside, unread);
  return audit && std::filesystem::exists(audit->program, error);
}

// Appends the differences between the committed step program and `steps` to
// `out`. Returns the exit status.
int ShowStepDiff(const Target& target,
                 const std::vector<verify::StepReport>& steps,
                 const Common& common, std::string& out, Findings& findings) {
  const SourceRef committed = ReadCommittedStep(target, findings);
  if (committed == nullptr) return kFailed;
  const auto difference =
      DifferenceFrom([&](Sink& sink) { WriteStepJson(steps, sink); }, committed,
                     findings, Committed::kStep);
  if (!difference) return kFailed;
  return ShowDifference(*difference, target.step, common, out);
}

// Writes or compares the target's committed step program, if it has one.
// Returns the exit status.
int PutStep(const Committing& run, FileSet& set, CommittedOutcome& outcome,
            Findings& findings) {
  const Target& target = run.target;
  if (target.step.empty()) return kDone;
  const auto steps = StepsToCommit(target, *run.compiled.compiled,
                                   run.compiled.model, findings);
  if (!steps) return kFailed;
  if (run.diff) {
    return ShowStepDiff(target, *steps, run.common, outcome.diff, findings);
  }
  const auto write = [&](Sink& out) { WriteStepJson(*steps, out); };
  return PutBesidePlan(target, target.step, "shardc.step", write, set, outcome,
                       findings);
}

// Appends the differences between the committed summary of the compiled program
// and its current summary to `out`. Returns the exit status.
int ShowAuditDiff(const Target& target, const AuditInput& audit,
                  const TargetProgram& program, const Common& common,
                  std::string& out, Findings& findings) {
  const auto changes = SummaryChanges(target, audit, program, findings);
  return changes ? ShowLines(*changes, audit.locked, common, out) : kFailed;
}

// If the target's compiled program has a committed summary, writes or compares
// the summary. Returns the exit status.
int PutAudit(const Committing& run, FileSet& set, CommittedOutcome& outcome,
             Findings& findings) {
  const Target& target = run.target;
  const size_t before = findings.errors();
  const auto audit = ReadAuditInput(target, run.allow_outside, findings);
  if (findings.errors() > before) return kFailed;
  if (!audit || audit->locked.empty()) return kDone;
  const auto program = ReadTargetProgram(
      target, *audit, run.compiled.compiled->plan.mesh, findings);
  if (program == nullptr) return kFailed;
  if (run.diff) {
    return ShowAuditDiff(target, *audit, *program, run.common, outcome.diff,
                         findings);
  }
  const std::string& path = audit->locked;
  const auto write = [&](Sink& out) {
    WriteAuditLock(*program->report, program->program.IsScheduled(), out);
  };
  return PutBesidePlan(target, path, "shardc.audit-lock", write, set, outcome,
                       findings);
}

// Writes or compares the figures with which the budget of the target compares
// the growth of a step. Returns the exit status.
int PutFigures(const Committing& run, FileSet& set, CommittedOutcome& outcome,
               Findings& findings) {
  const Target& target = run.target;
  if (!target.budget.growth) return kDone;
  const StagedTarget& compiled = run.compiled;
  const auto figures = FiguresOfTarget(target, compiled, findings);
  if (!figures) return kFailed;
  const std::string path = CostLockPath(target.plan);
  if (run.diff) {
    const auto changes = FigureChanges(target, *figures, findings);
    return changes ? ShowLines(*changes, path, run.common, outcome.diff)
                   : kFailed;
  }
  const cost::CostLock lock = {Fingerprint(compiled.compiled->plan),
                               target.budget.mode, *figures};
  const auto write = [&](Sink& out) { WriteCostLock(lock, out); };
  return PutBesidePlan(target, path, "shardc.cost-lock", write, set, outcome,
                       findings);
}

}  // namespace

bool HasAudit(const Target& target, bool allow_outside) {
  // ReadAuditInput() adds a finding if the section is invalid. It is dropped
  // here, because planning the target adds it again.
  Findings unread;
  return ReadAuditInput(target, allow_outside, unread).has_value();
}

std::string CheckText(const Target& target, bool allow_outside,
                      const StagedTarget& compiled,
                      const LintSettings& settings, Findings& findings) {
  LintFlags lint;
  lint.lists_names = false;  // findings are only counted
  const auto result = LintBySettings(target, *compiled.compiled, compiled.model,
                                     lint, settings, findings);
  if (!result) return {};
  std::array<int64_t, 3> counts{};
  for (const Finding& finding : result->findings) {
    ++counts[static_cast<size_t>(finding.level)];
  }
  const std::string rest =
      HasProgram(target, allow_outside) ? ", without the compiled program" : "";
  if (result->findings.empty()) return "nothing found" + rest + "\n";
  return Counted(counts[0], "error") + ", " + Counted(counts[1], "warning") +
         ", " + Counted(counts[2], "note") + rest +
         (counts[0] + counts[1] > 0
              ? ": run `shardc check` to list them\n"
              : ": run `shardc check --notes` to list them\n");
}

int PutCompanions(const Committing& run, FileSet& set,
                  CommittedOutcome& outcome, Findings& findings) {
  int status = PutStep(run, set, outcome, findings);
  status = std::max(status, PutAudit(run, set, outcome, findings));
  return std::max(status, PutFigures(run, set, outcome, findings));
}

}  // namespace shardc::cli
