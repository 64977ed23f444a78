// Audits the compiled program for the report page in the same way as `shardc
// audit PROGRAM --plan PLAN --step STEP`, so that the page and the command
// print the same results:
//
//   shardc report --target llama --program step.hlo.txt --step step.json
#include "cli/reported_program.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "audit/drift.h"
#include "cli/audit_findings.h"
#include "cli/compared_step.h"
#include "cli/output.h"
#include "cli/plan_findings.h"
#include "cli/target_audit.h"
#include "devices/profiles.h"
#include "source/after_last.h"
#include "source/file.h"

namespace shardc::cli {
namespace {

// The path of the program's text. It is empty if there is no program. `own` has
// the target's audit settings, and is not set for a program of `--program`.
struct ProgramFile {
  std::string path;
  std::optional<AuditInput> own;
};

// Returns the file of `--program`. Without this option, returns the target's
// program if that file exists, or else an empty path. Returns nullopt after a
// finding.
std::optional<ProgramFile> FileOf(const ProgramFlags& files,
                                  const CostFlags& flags, const Target& target,
                                  const Mesh& mesh, Findings& findings) {
  if (!files.program.empty()) return ProgramFile{files.program, {}};
  Findings own;
  const auto audit =
      ReadAuditInput(target, flags.inputs.asked.allow_outside, own);
  if (audit) CheckBudgetAxes(*audit, mesh, own);
  if (own.HasErrors()) {
    for (const Finding& one : own.all()) findings.Add(one);
    return std::nullopt;
  }
  std::error_code error;
  if (audit && std::filesystem::exists(audit->program, error)) {
    return ProgramFile{audit->program, audit};
  }
  if (files.step.empty()) return ProgramFile{};
  findings.Add(code::kUsage, FlagPlace("--step", files.step),
               "a step is compared with a compiled program, and none is given",
               "add `--program`");
  return std::nullopt;
}

std::vector<audit::Planned> ParamsOf(const PlanTable& table, Mode mode) {
  std::vector<audit::Planned> out;
  for (size_t i = 0; i < table.names.size(); ++i) {
    const ReadParam& param = table.classes.plan.params[table.class_of[i]];
    if (!param.type.shape || param.placement) continue;
    out.push_back(
        {std::string(table.names[i]), *param.type.shape, param.SpecOf(mode)});
  }
  return out;
}

}  // namespace

report::Program ReportedProgram::ForPage() const {
  return {from, &*report, &compared, findings.all()};
}

bool ReportedProgram::Fails(const Selection& selection) const {
  const bool drifted = compared.drifts && compared.drifts->Fail();
  const auto& step = compared.compared;
  const bool differs = step && !step->difference.extra.empty();
  return drifted || differs ||
         std::ranges::any_of(findings.all(), [&](const Finding& finding) {
           return selection.Fails(finding.level);
         });
}

bool ReadReportedProgram(const ProgramFlags& files, const CostFlags& flags,
                         const Target& target, const Planned& planned,
                         const Selection& selection,
                         std::unique_ptr<const ReportedProgram>& out,
                         Findings& findings) {
  const Mesh& mesh = planned.mesh();
  const auto file = FileOf(files, flags, target, mesh, findings);
  const auto mode = ParseModeFlag(flags.mode, findings);
  if (!file || !mode) return false;
  if (file->path.empty()) return true;
  if (!CheckMode(planned.table.classes.plan.modes, *mode, findings)) {
    return false;
  }
  const SourceRef source = ReadSource(file->path, findings);
  if (source == nullptr) return false;
  auto program = hlo::ReadProgram(source, findings);
  if (!program) return false;
  auto read = std::make_unique<ReportedProgram>();
  read->from = AfterLast(file->path, '/');
  read->program = std::move(*program);
  read->profile = ReadProfile(flags.profile, findings);
  const DeviceProfile* profile = read->profile.get();
  if (profile == nullptr && mesh.device) {
    profile = FindDeviceProfile(mesh.device->profile);
  }
  if (HasDividedParts(planned.table.classes.plan, *mode, findings)) {
    return false;
  }
  read->report = audit::Audit(read->program, {&mesh, profile}, findings);
  if (!read->report) return false;
  read->compared.drifts =
      audit::DriftsOf(read->program, mesh, ParamsOf(planned.table, *mode));
  if (!files.step.empty()) {
    auto step = ReadStepFile(files.step, *mode, findings);
    if (!step || !CompareWithStep(read->program, *read->report,
                                  std::move(*step), read->compared, findings)) {
      return false;
    }
  }
  read->findings = AuditFindings(read->program, *read->report, selection);
  if (file->own) {
    read->over_budget =
        BudgetFindings(*file->own, audit::SumsOf(*read->report), selection);
  }
  out = std::move(read);
  return true;
}

}  // namespace shardc::cli
