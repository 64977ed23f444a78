// Compares a compiled program with a step program. A step program is made for
// one mesh. If the compiled program is for another mesh, a finding
// (device-count) is added. Mesh axes of size 1 are ignored. For example:
//
//   step of dp=2 pp=1 tp=4, program of dp=2 tp=4  ->  the meshes are equal
//   step of dp=4 tp=2, program of dp=2 tp=4       ->  a finding
#include "cli/compared_program.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "audit/audit.h"
#include "audit/difference.h"
#include "audit/drift.h"
#include "audit/equivalent.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/planned.h"
#include "cli/target_audit.h"
#include "cost/program.h"
#include "cost/setting_rows.h"
#include "devices/profiles.h"
#include "emit/audits/audit_report.h"
#include "emit/programs/param_facts.h"
#include "hlo/program.h"
#include "lint/rules/all.h"
#include "model/legal_sizes.h"
#include "model/option_value.h"
#include "plan/plan.h"
#include "program/read.h"
#include "source/file.h"
#include "source/json.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

// Returns whether two meshes have the same axes in the same order. Axes of size
// 1 are ignored.
bool SameAxes(const Mesh& a, const Mesh& b) {
  const auto wide = [](const Mesh& mesh) {
    std::vector<std::pair<std::string, int64_t>> out;
    for (const MeshAxis& axis : mesh.axes) {
      if (axis.size > 1) out.emplace_back(axis.name, axis.size);
    }
    return out;
  };
  return wide(a) == wide(b);
}

}  // namespace

std::optional<audit::PlannedStep> ReadStepFile(const std::string& path,
                                               Mode mode, Findings& findings) {
  const SourceRef source = ReadSource(path, findings);
  if (source == nullptr) return std::nullopt;
  const auto document = JsonDocument::Parse(source, findings);
  if (document == nullptr) return std::nullopt;
  return audit::ReadPlannedStep(*document, ModeName(mode), findings);
}

bool CompareWithStep(const hlo::Program& program, const audit::Report& report,
                     audit::PlannedStep step, AuditText& how,
                     Findings& findings) {
  if (!SameAxes(*report.mesh, step.mesh)) {
    findings.Add(code::kDeviceCount, program.PlaceOf(program.name),
                 "the mesh of the step of `--step` is " + MeshText(step.mesh) +
                     ", and the program's is " + MeshText(*report.mesh),
                 "run `shardc verify step` for the program's mesh");
    return false;
  }
  const auto sends = audit::EquivalentOf(program, report, findings);
  if (!sends) return false;
  auto difference = audit::DifferenceOf(step, *sends, report,
                                        how.drifts.value_or(audit::Drifts()));
  how.compared = {std::move(step), std::move(difference)};
  return true;
}

// Audits the compiled program for the report page in the same way as `shardc
// audit PROGRAM --plan PLAN --step STEP`, so that the page and the command
// print the same results:
//
//   shardc report --target llama --compiled step.hlo.txt --step step.json

namespace {

// The path of the program's text. It is empty if there is no program. `own` has
// the target's audit settings, and is not set for a program of `--compiled`.
struct ProgramFile {
  std::string path;
  std::optional<AuditInput> own;
};

// Returns the file of `--compiled`. Without this option, returns the target's
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
               "add `--compiled`");
  return std::nullopt;
}

std::vector<audit::Planned> ParamsOf(const PlanTable& table, Mode mode) {
  std::vector<audit::Planned> out;
  for (size_t i = 0; i < table.names.size(); ++i) {
    const ReadParam& param = table.classes.params[table.class_of[i]];
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
  if (!CheckMode(planned.table.classes.modes, *mode, findings)) {
    return false;
  }
  const SourceRef source = ReadSource(file->path, findings);
  if (source == nullptr) return false;
  auto program = hlo::ReadProgram(source, findings);
  if (!program) return false;
  auto read = std::make_unique<ReportedProgram>();
  read->from = AfterLast(file->path, '/');
  read->program = std::move(*program);
  read->profile = cost::ReadProfile(flags.settings["--profile"], findings);
  const DeviceProfile* profile = read->profile.get();
  if (profile == nullptr && mesh.device) {
    profile = FindDeviceProfile(mesh.device->profile);
  }
  if (HasDividedParts(planned.table.classes, *mode, findings)) {
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
  out = std::move(read);
  return true;
}

cost::Report CostOf(const Compiled* compiled,
                    const std::optional<ModelConfig>& model,
                    const cost::CostInputs& work, const cost::Settings& given) {
  const cost::Settings settings =
      compiled == nullptr ? given : WithLossOf(compiled->rules, given);
  std::string why = "a plan file does not describe the model";
  std::optional<cost::Communication> program;
  if (compiled != nullptr) {
    program =
        cost::StepTraffic(*compiled, model, settings).On(*compiled, work, why);
  }
  cost::Report out = cost::ReportOf(work, settings, std::move(program));
  out.communication.why_not = why;
  const bool unknown_loss = compiled == nullptr && work.mode == Mode::kTrain &&
                            settings.loss == LossKind::kStack;
  if (unknown_loss) {
    out.assumptions.emplace_back(
        "a plan file does not contain the loss of the rules: assumed to be "
        "that of the software");
  }
  if (compiled == nullptr && model && !IsGeneration(work.mode)) {
    out.assumptions.emplace_back(
        "a plan file does not contain the mask of attention: assumed to be "
        "causal");
  }
  return out;
}

// Prints the report of `shardc audit`, limited to one parameter. A program
// names its arguments by their paths, and all layers of a layer stack are one
// argument:
//
//   parameter model/layers/3/up  ->  argument params['model']['layers']['up']
//
// To match a parameter with an argument, layer numbers are removed from both
// names. The two match if one of the remaining names ends with the other.

namespace {

// Returns the parts of a name in reverse order and without layer numbers:
// `layers/3/up` -> {"up", "layers"}.
std::vector<std::string> PartsOf(std::string_view name) {
  std::vector<std::string> out(1);
  for (const char c : name) {
    if (c == '/' || c == '.') {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  std::erase_if(out, [](const std::string& part) {
    return part.find_first_not_of("0123456789") == std::string::npos;
  });
  std::ranges::reverse(out);
  return out;
}

bool Names(const std::vector<std::string>& param, std::string_view argument) {
  const auto other = PartsOf(argument);
  const size_t shared = std::min(param.size(), other.size());
  return shared > 0 &&
         std::equal(param.begin(),
                    param.begin() + static_cast<std::ptrdiff_t>(shared),
                    other.begin());
}

// Removes what does not concern the parameter `param` from the report: the
// collectives of other parameters, and all transfers to or from the host.
void Limit(audit::Report& report, const std::vector<std::string>& param) {
  std::erase_if(report.traffic, [&](const audit::Traffic& one) {
    return !Names(param, one.moved.name);
  });
  report.calls = 0;
  report.sent = 0;
  for (const audit::Traffic& one : report.traffic) {
    report.calls += one.calls.value();
    report.sent += one.sent.value();
  }
  report.host_transfers.clear();
}

}  // namespace

int ExplainProgram(const SourceRef& source, const Compiled& compiled,
                   size_t param, const Common& common, Findings& findings) {
  const auto program = hlo::ReadProgram(source, findings);
  if (!program) return kFailed;
  auto report = audit::Audit(*program, {&compiled.mesh, nullptr}, findings);
  if (!report) return kFailed;
  const std::string name(compiled.plan.names[param]);
  Limit(*report, PartsOf(name));
  AuditText how;
  // The prefix that an argument may lack is found in the names of all
  // parameters.
  std::vector<audit::Planned> planned;
  bool has_shape = false;
  for (size_t i = 0; i < compiled.plan.params.size(); ++i) {
    const ParamLayout& layout =
        compiled.plan.layouts[compiled.plan.params[i].layout];
    const auto& shape = compiled.plan.types[layout.type].shape;
    // A program shards an array in one range for each device, so the sharding
    // of a parameter whose parts are divided is not compared.
    if (!shape || layout.modes.empty() || !layout.parts.empty()) continue;
    planned.push_back(
        {std::string(compiled.plan.names[i]), *shape, layout.modes[0].spec});
    has_shape = has_shape || i == param;
  }
  if (has_shape) {
    how.drifts = audit::DriftsOf(*program, compiled.mesh, planned, name);
  }
  const auto write = [&](Sink& out) {
    if (common.format == "json") return WriteAuditJson(*report, how, out);
    out.Append(Printable(name) + "\n" + AuditReportText(*report, how));
  };
  return PutOut(write, findings) ? kDone : kFailed;
}

std::optional<program::TracedProgram> ReadTraced(const SourceRef& source,
                                                 Findings& findings) {
  auto program = program::ReadProgram(source, findings);
  if (!program) return std::nullopt;
  program::TracedProgram out;
  out.program = std::move(*program);
  out.facts = program::FindFacts(out.program);
  return out;
}

std::optional<program::TracedProgram> ReadTracedFile(const std::string& path,
                                                     Findings& findings) {
  const SourceRef source = ReadSource(path, findings);
  return source == nullptr ? std::nullopt : ReadTraced(source, findings);
}

namespace {

// Prints the facts about the parameter `name`, or about all parameters.
int PutFacts(const program::TracedProgram& traced, char separator,
             const std::string& name, const Common& common,
             Findings& findings) {
  std::vector<std::string_view> names;
  for (const program::ParamFacts& param : traced.facts.params) {
    names.push_back(param.name);
  }
  std::optional<size_t> param;
  if (!name.empty()) {
    param = FindParam(names, separator, name, findings);
    if (!param) return kFailed;
  }
  const auto write = [&](Sink& out) {
    if (common.format == "json") {
      return WriteParamFactsJson(traced.program, traced.facts, param, out);
    }
    out.Append(param ? ParamFactsText(traced.program, traced.facts, *param)
                     : AllParamFactsText(traced.facts));
  };
  return PutOut(write, findings) ? kDone : kFailed;
}

}  // namespace

int ExplainTraced(const SourceRef& source, const std::string& name,
                  const Common& common, Findings& findings) {
  const auto traced = ReadTraced(source, findings);
  if (!traced) return kFailed;
  const char separator = program::ManifestOf(traced->program).separator;
  return PutFacts(*traced, separator, name, common, findings);
}

int ExplainDescribed(const Target& target, const std::string& name,
                     const Common& common, Findings& findings) {
  if (target.model.empty()) {
    findings.Add(code::kUsage, {}, "`--facts` needs the model's configuration",
                 "give `--model CONFIG.json`, or `--program FILE` in place of "
                 "`--facts`");
    return kFailed;
  }
  const auto tree = DescribedTree(target, findings);
  if (!tree) return kFailed;
  program::TracedProgram described;
  described.facts = *tree->described;
  described.program.function = "the description of `" + tree->model + "`";
  return PutFacts(described, tree->separator, name, common, findings);
}

}  // namespace shardc::cli
