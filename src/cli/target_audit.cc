// Checks the compiled program of a target. A build creates the program, so it
// may be missing or outdated. For each key of the target's section `audit`,
// `check` reports:
//
//   budget: {all_gather: {tp: 0}}  SHD611 if an all-gather over tp sends bytes
//   locked: llama.audit.json       SHD612 if the program sends more than the
//                                  summary in this file records
//   program: llama.hlo.txt         flaws (SHD601 ...) that the summary lacks
#include "cli/target_audit.h"

#include <algorithm>
#include <iterator>
#include <system_error>
#include <utility>

#include "audit/growth.h"
#include "audit/lock.h"
#include "cli/audit_findings.h"
#include "model/axis_rules.h"
#include "parse/audit_read.h"
#include "source/audit_code.h"
#include "source/file.h"
#include "source/json.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

bool IsThere(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// Reads the committed summary of the target's program. Returns nullopt after a
// finding.
std::optional<audit::Lock> ReadTargetLock(const Target& target,
                                          const AuditInput& audit,
                                          Findings& findings) {
  const std::string& path = audit.locked;
  if (!IsThere(path)) {
    findings.Add(code::kMissing, target.place,
                 "the committed summary `" + path + "` is not there",
                 "`shardc plan --write-locked` writes it");
    return std::nullopt;
  }
  const SourceRef source = ReadSource(path, findings);
  if (source == nullptr) return std::nullopt;
  const auto document = JsonDocument::Parse(source, findings);
  if (document == nullptr) return std::nullopt;
  return audit::ReadLock(*document, findings);
}

// Returns whether the committed summary `lock` can be compared with the
// program. Both must be for the same number of devices and of the same stage of
// compilation (partitioned or optimised). Adds a finding if they are not.
bool Suits(const audit::Lock& lock, const TargetProgram& program,
           const Target& target, const AuditInput& audit, Findings& findings) {
  const bool scheduled = program.program.IsScheduled();
  if (lock.sent.devices == program.report->devices &&
      lock.scheduled == scheduled) {
    return true;
  }
  const auto text = [](int64_t devices, bool is_scheduled) {
    return "the " + std::string(audit::StageName(is_scheduled)) +
           " program of " + Counted(devices, "device");
  };
  findings.Add(code::kDeviceCount, target.place,
               "`" + audit.locked + "` is the summary of " +
                   text(lock.sent.devices, lock.scheduled) + ", and `" +
                   audit.program + "` is " +
                   text(program.report->devices, scheduled),
               "give the program of the same stage, or write the summary again "
               "with `shardc plan --write-locked`");
  return false;
}

void Append(FindingSink& out, Findings more) {
  for (const Finding& one : more.all()) out.push_back({one});
}

}  // namespace

std::optional<AuditInput> ReadAuditInput(const Target& target,
                                         bool allow_outside,
                                         Findings& findings) {
  return ReadTargetAudit(target, audit::LimitedCollectives(), allow_outside,
                         findings);
}

std::unique_ptr<const TargetProgram> ReadTargetProgram(const Target& target,
                                                       const AuditInput& audit,
                                                       const Mesh& mesh,
                                                       Findings& findings) {
  const std::string& path = audit.program;
  if (!IsThere(path)) {
    findings.Add(code::kMissing, target.place,
                 "the compiled program `" + path + "` is not there",
                 "compile the step and write the text of the program there, as "
                 "the guide of `shardc audit` shows");
    return nullptr;
  }
  const SourceRef source = ReadSource(path, findings);
  if (source == nullptr) return nullptr;
  auto program = hlo::ReadProgram(source, findings);
  if (!program) return nullptr;
  auto out = std::make_unique<TargetProgram>();
  out->program = std::move(*program);
  out->report = audit::Audit(out->program, {&mesh, nullptr}, findings);
  if (!out->report) return nullptr;
  return out;
}

void CheckBudgetAxes(const AuditInput& audit, const Mesh& mesh,
                     Findings& findings) {
  for (const AuditLimit& limit : audit.limits) {
    if (limit.over.empty()) continue;
    for (const std::string& axis : audit::AxesIn(limit.over)) {
      const auto rules = ParallelismRules();
      const bool known =
          mesh.Find(axis) ||
          std::any_of(rules.begin(), rules.end(), [&](AxisRule rule) {
            return AxisRules().Value(rule).axes.front() == axis;
          });
      if (known) continue;
      findings.Add(
          code::kReference, limit.place,
          "the budget of `" + limit.of + "` over `" + limit.over + "` names " +
              ShortQuote(axis) + ", which is no axis of the mesh",
          "the mesh is " + MeshText(mesh) + "; several axes are joined by `+`");
      break;
    }
  }
}

FindingSink BudgetFindings(const AuditInput& audit, const audit::Sums& sums,
                           const Selection& selection) {
  FindingSink out;
  if (!selection.Selects(code::kOverAuditBudget)) return out;
  for (const audit::Excess& one : audit::OverBudget(audit.limits, sums)) {
    const AuditLimit& limit = *one.limit;
    const std::string what =
        limit.of == "total" ? "the compiled program sends "
        : limit.of == "activations_gathered"
            ? "all_gathers of activations send "
            : limit.of +
                  (limit.over.empty() ? "" : " over `" + limit.over + "`") +
                  " sends ";
    Finding finding;
    finding.code = &code::kOverAuditBudget;
    finding.place = limit.place;
    finding.message = what + BytesText(one.sent) + " per device, and the " +
                      "budget is " + BytesText(limit.bytes) +
                      (one.most.empty() ? "" : "; most of it is " + one.most);
    finding.help = "`shardc audit " + audit.program +
                   "` lists what is sent, by source line";
    out.push_back(std::move(finding));
  }
  return out;
}

FindingSink CheckProgram(const Target& target, const AuditInput& audit,
                         const Mesh& mesh, bool locked,
                         const Selection& selection, Findings& errors) {
  if (!locked && !IsThere(audit.program)) return {};
  const auto program = ReadTargetProgram(target, audit, mesh, errors);
  if (program == nullptr) return {};
  const audit::Report& report = *program->report;
  FindingSink out = BudgetFindings(audit, audit::SumsOf(report), selection);
  std::optional<audit::Lock> lock;
  const std::string& path = audit.locked;
  if (!path.empty() && (locked || IsThere(path))) {
    lock = ReadTargetLock(target, audit, errors);
    if (!lock) return out;
  }
  Append(out, AuditFindings(program->program, report, selection,
                            lock ? &*lock : nullptr));
  if (locked && lock && selection.Selects(code::kTrafficGrew) &&
      Suits(*lock, *program, target, audit, errors)) {
    Append(out, GrowthFindings(
                    program->program, report,
                    audit::GrowthOf(lock->sent, audit::SentOf(report)), path));
  }
  return out;
}

std::optional<std::vector<std::string>> SummaryChanges(
    const Target& target, const AuditInput& audit, const TargetProgram& program,
    Findings& findings) {
  const auto lock = ReadTargetLock(target, audit, findings);
  if (!lock) return std::nullopt;
  return audit::ChangesOf(
      *lock, audit::LockOf(*program.report, program.program.IsScheduled()));
}

std::shared_ptr<const audit::Sums> ProgramSums::Of(const Target& target,
                                                   const AuditInput& audit,
                                                   const Mesh& mesh) {
  const std::string& path = audit.program;
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error) return nullptr;
  const auto time = std::filesystem::last_write_time(path, error);
  if (error) return nullptr;
  const std::scoped_lock lock(mutex_);
  const auto [at, added] = known_.try_emplace({path, MeshText(mesh)});
  Known& known = at->second;
  if (added || known.size != size || known.time != time) {
    known = {size, time, nullptr};
    Findings unread;
    const auto program = ReadTargetProgram(target, audit, mesh, unread);
    if (program != nullptr) {
      known.sums =
          std::make_shared<const audit::Sums>(audit::SumsOf(*program->report));
    }
  }
  return known.sums;
}

}  // namespace shardc::cli
