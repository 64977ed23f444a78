// `shardc audit`: prints the collectives of a compiled program and the bytes
// that they send. The program's text is read before the mesh. A mesh axis of
// size -1 can then be computed from the program's number of devices: `--mesh
// dp:-1,tp:2` of a program on 8 devices is dp:4,tp:2.
#include "audit/audit.h"

#include <algorithm>
#include <cstdlib>

#include "audit/difference.h"
#include "audit/drift.h"
#include "audit/growth.h"
#include "cli/commands.h"
#include "cli/compared_program.h"
#include "cli/cost_flags.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/planned.h"
#include "cli/program_plan.h"
#include "cli/target_audit.h"
#include "cli/version.h"
#include "cost/setting_rows.h"
#include "cost/traced_program.h"
#include "emit/audits/audit_report.h"
#include "emit/findings/formats.h"
#include "hlo/program.h"
#include "lint/run.h"
#include "model/option_value.h"
#include "plan/read.h"
#include "source/file.h"
#include "source/json.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

struct AuditFlags {
  InputFlags inputs;
  // `program` is compiled, and `traced` a traced program.
  std::string program, traced, plan, step, against, by = "all", profile, output;
  std::string mode = "train";
  bool allow_edited = false;
  std::vector<std::string> select, ignore;
  std::string fail_on;
};

// The mesh of `--mesh` or `--plan`, and the parameters of the plan. The report
// names groups of devices by the axes of the mesh.
struct Named {
  std::optional<Mesh> mesh;
  std::optional<std::vector<audit::Planned>> plan;
  AxisGroup batch;  // axes over which the plan shards the batch
};

// Reads the mesh from `--mesh`, or the mesh and the parameters from `--plan`.
// An axis of size -1 in `--mesh` is computed from `--devices` or, without this
// option, from the program's number of devices. Without `--mesh` and `--plan`,
// the members of the result are empty. Returns nullopt after a finding.
std::optional<Named> ReadNames(const AuditFlags& flags, Mode mode,
                               int64_t devices, Findings& findings) {
  Named out;
  if (!flags.plan.empty()) {
    auto plan =
        ReadPlanFile(flags.plan, EditedPlanOf(flags.allow_edited), findings);
    if (!plan || !CheckMode(plan->modes, mode, findings) ||
        HasDividedParts(*plan, mode, findings)) {
      return std::nullopt;
    }
    out.mesh = std::move(plan->mesh);
    out.plan.emplace();
    for (const ReadParam& param : plan->params) {
      if (!param.type.shape || param.placement) continue;
      out.plan->push_back({param.name, *param.type.shape, param.SpecOf(mode)});
    }
    for (const ReadActivation& one : plan->activations) {
      if (one.mode != mode || one.tensor != "hidden") continue;
      out.batch = AxesAt(one.spec, 0);
    }
    return out;
  }
  if (flags.inputs.asked.mesh.empty()) return out;
  InputFlags inputs = flags.inputs;
  const bool open = inputs.asked.mesh.find("-1") != std::string::npos;
  if (open && inputs.devices.empty()) inputs.devices = std::to_string(devices);
  out.mesh = LoadMeshAlone(inputs, findings);
  if (!out.mesh) return std::nullopt;
  return out;
}

bool CheckAuditFlags(const AuditFlags& flags, Findings& findings) {
  const bool has_mesh = !flags.inputs.asked.mesh.empty();
  if (has_mesh && !flags.plan.empty()) {
    findings.Add(code::kUsage, FlagPlace("--mesh", flags.inputs.asked.mesh),
                 "`--plan` has a mesh, so `--mesh` cannot be given too",
                 "leave out one of them");
  }
  if (!flags.traced.empty() && flags.plan.empty()) {
    findings.Add(code::kUsage, FlagPlace("--program", flags.traced),
                 "what a traced program needs depends on the plan",
                 "add `--plan`");
  }
  if (!flags.profile.empty() && !has_mesh && flags.plan.empty()) {
    findings.Add(code::kUsage, FlagPlace("--profile", flags.profile),
                 "the time of a collective depends on the mesh, and none is "
                 "given",
                 "add `--mesh` or `--plan`");
  }
  return !findings.HasErrors();
}

// Reads the earlier audit in `path`. Sets `how.growth` to the routes (a kind of
// collective and its mesh axes) on which the program sends more bytes than in
// the earlier audit. Returns false after a finding.
bool CompareWithAudit(const std::string& path, const audit::Report& report,
                      AuditText& how, Findings& findings) {
  const SourceRef source = ReadSource(path, findings);
  if (source == nullptr) return false;
  const auto document = JsonDocument::Parse(source, findings);
  if (document == nullptr) return false;
  const auto before = audit::ReadSent(*document, findings);
  if (!before) return false;
  const audit::Sent after = audit::SentOf(report);
  if (before->devices != after.devices) {
    findings.Add(code::kDeviceCount, {source},
                 "this audit is of a program on " +
                     Counted(before->devices, "device") +
                     ", and the program runs on " + CountText(after.devices),
                 "compare programs for the same mesh");
    return false;
  }
  // Both audits count bytes by the names of mesh axes. If the mesh changed,
  // the names differ, and all bytes would be reported as growth.
  if (before->mesh && before->mesh != after.mesh) {
    const auto text = [](const std::string& mesh) {
      return mesh.empty() ? std::string("no mesh") : "the mesh " + mesh;
    };
    findings.Add(
        code::kDeviceCount, {source},
        "the groups of this audit are named by " + text(*before->mesh) +
            ", and those of the program by " + text(*after.mesh),
        "give the same mesh to both audits, with `--mesh` or `--plan`");
    return false;
  }
  how.growth = audit::GrowthOf(*before, after);
  return true;
}

// Returns the lints to report and the level from which findings make the
// command fail. Returns nullopt after a finding.
std::optional<Selection> SelectionOf(const AuditFlags& flags,
                                     Findings& findings) {
  LintSettings settings;
  settings.select = SplitList(flags.select);
  settings.ignore = SplitList(flags.ignore);
  settings.fail_on = flags.fail_on;
  return Selection::Make(settings, false, findings);
}

FindingReport ReportOf(const Findings& found, const AuditFlags& flags,
                       const Common& common) {
  const char* workspace = std::getenv("GITHUB_WORKSPACE");
  FindingReport out{found.all(),
                    kVersion,
                    {},
                    Repository::Find(workspace == nullptr ? "" : workspace)};
  out.style.color = flags.output.empty() && UsesColor(common, 1);
  return out;
}

// Compares the report with what the traced program needs under the plan.
// Returns false after a finding.
bool CompareWithTraced(const AuditFlags& flags, Mode mode, const Common& common,
                       const audit::Report& report, AuditText& how,
                       Findings& findings) {
  const auto traced = ReadTracedProgram(flags.traced, findings);
  if (!traced) return false;
  const auto plan = PlanOfProgram(*traced, flags.plan, InputFlags(), mode,
                                  PlannedParts::kSplit, common, findings);
  if (!plan || !CanRunOn(*traced, plan->mesh, findings)) return false;
  const cost::ProgramCost cost =
      cost::CostOfProgram({.program = &plan->Of(*traced),
                           .mesh = plan->mesh,
                           .specs = plan->specs,
                           .capacity = std::nullopt});
  how.needs = audit::CompareWithNeeds(report, cost.transfers);
  return true;
}

int RunAudit(const AuditFlags& flags, const Common& common,
             Findings& findings) {
  const auto read = cost::ReadProfile(flags.profile, findings);
  if (read == nullptr && !flags.profile.empty()) return kFailed;
  const DeviceProfile* profile = read.get();
  const auto by = audit::ParseBy(flags.by);
  const auto mode = ParseModeFlag(flags.mode, findings);
  const auto selection = SelectionOf(flags, findings);
  if (!by || !mode || !selection || !CheckAuditFlags(flags, findings)) {
    return kFailed;
  }
  const SourceRef source = ReadSource(flags.program, findings);
  if (source == nullptr) return kFailed;
  const auto program = hlo::ReadProgram(source, findings);
  if (!program) return kFailed;
  const auto named = ReadNames(flags, *mode, program->devices, findings);
  if (!named) return kFailed;
  std::optional<audit::PlannedStep> step;
  if (!flags.step.empty()) {
    step = ReadStepFile(flags.step, *mode, findings);
    if (!step) return kFailed;
  }
  std::optional<Mesh> mesh = named->mesh;
  if (!mesh && step) mesh = step->mesh;
  if (profile == nullptr && mesh && mesh->device) {
    profile = FindDeviceProfile(mesh->device->profile);
  }
  auto report =
      audit::Audit(*program, {mesh ? &*mesh : nullptr, profile}, findings);
  if (!report) return kFailed;
  AuditText how{*by};
  if (named->plan) {
    how.drifts = audit::DriftsOf(*program, *mesh, *named->plan);
    for (auto& flaw :
         audit::BatchFlawsOf(*program, *mesh, *named->plan, named->batch)) {
      report->flaws.push_back(std::move(flaw));
    }
  }
  if (!flags.against.empty() &&
      !CompareWithAudit(flags.against, *report, how, findings)) {
    return kFailed;
  }
  if (step &&
      !CompareWithStep(*program, *report, std::move(*step), how, findings)) {
    return kFailed;
  }
  if (!flags.traced.empty() &&
      !CompareWithTraced(flags, *mode, common, *report, how, findings)) {
    return kFailed;
  }
  const Findings found = AuditFindings(*program, *report, *selection);
  how.findings = found.all();
  const auto write = [&](Sink& out) {
    if (common.format == "json") {
      return WriteAuditJson(*report, how, out);
    }
    const FindingReport shown = ReportOf(found, flags, common);
    const FindingFormat* format = FindFindingFormat(common.format);
    if (format != nullptr && common.format != "text") {
      return format->write(shown, out);
    }
    out.Append(AuditReportText(*report, how));
    if (!found.empty()) FindingsText(shown, out);
  };
  if (!PutResult(write, flags.output, findings)) return kFailed;
  const bool grown = how.growth && !how.growth->empty();
  const bool drifted = how.drifts && how.drifts->Fail();
  const bool fails = std::ranges::any_of(
      found.all(),
      [&](const Finding& finding) { return selection->Fails(finding.level); });
  const bool differs = how.compared && !how.compared->difference.extra.empty();
  return grown || drifted || differs || fails ? kFound : kDone;
}

Options OptionsOf(AuditFlags& flags) {
  Options options = {
      {.name = "PROGRAM",
       .to = &flags.program,
       .value = "FILE",
       .help = "text of a compiled program, as XLA writes it",
       .required = true},
      {.name = "--by",
       .need = HelpNeed::kOften,
       .to = &flags.by,
       .value = "all|line|parameter|axes|kind|scope",
       .help = "what to add up in a row (default: all, which keeps them apart)",
       .checked = true},
      {.name = "--against",
       .need = HelpNeed::kOften,
       .to = &flags.against,
       .value = "FILE",
       .help = "earlier audit (`--format json`); exit with 1 if the program "
               "sends more"},
      {.name = "--plan",
       .need = HelpNeed::kMost,
       .to = &flags.plan,
       .value = "FILE",
       .help = "plan file whose mesh names the axes; exit with 1 if the "
               "program shards its parameters in another way, or has none "
               "of them"},
      {.name = "--step",
       .need = HelpNeed::kOften,
       .to = &flags.step,
       .value = "FILE",
       .help = "step program (`verify step --format json`); exit with 1 if the "
               "program sends what is not planned"},
      {.name = "--program",
       .need = HelpNeed::kOften,
       .to = &flags.traced,
       .value = "FILE",
       .help = "traced program of your function; compares what is "
               "sent with what its ops need under `--plan`, by "
               "lines of your code"},
      ModeOption(&flags.mode),
      AllowEditedOption(&flags.allow_edited),
      OptionOfSetting("--profile", &flags.profile),
      {.name = "--select",
       .to = &flags.select,
       .value = "CODE,...",
       .help = "report these findings only: codes, names or families",
       .several = Several::kCommas},
      {.name = "--ignore",
       .to = &flags.ignore,
       .value = "CODE,...",
       .help = "report all findings but these",
       .several = Several::kCommas},
      {.name = "--fail-on",
       .need = HelpNeed::kOften,
       .to = &flags.fail_on,
       .value = "error|warning|note|never",
       .help = "exit 1 if a finding has this level or a higher one (default: "
               "error)"},
      OutputOption(&flags.output)};
  Append(options, MeshInputs(flags.inputs));
  return options;
}

}  // namespace

Declared DeclareAudit() { return Declare(OptionsOf, RunAudit); }

}  // namespace shardc::cli
