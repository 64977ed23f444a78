// Compares a plan with the programs of the user: the compiled program of a
// step, and the traced program of `--program`.
//
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
#include "cli/plan_findings.h"
#include "cli/target_audit.h"
#include "cost/program.h"
#include "devices/profiles.h"
#include "emit/audits/audit_report.h"
#include "emit/programs/param_facts.h"
#include "hlo/program.h"
#include "lint/rules/all.h"
#include "model/legal_sizes.h"
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

std::optional<TracedProgram> ReadTraced(const SourceRef& source,
                                        Findings& findings) {
  auto program = program::ReadProgram(source, findings);
  if (!program) return std::nullopt;
  TracedProgram out;
  out.program = std::move(*program);
  out.facts = program::FindFacts(out.program);
  return out;
}

std::optional<TracedProgram> ReadTracedFile(const std::string& path,
                                            Findings& findings) {
  const SourceRef source = ReadSource(path, findings);
  return source == nullptr ? std::nullopt : ReadTraced(source, findings);
}

int ExplainTraced(const SourceRef& source, const std::string& name,
                  const Common& common, Findings& findings) {
  const auto traced = ReadTraced(source, findings);
  if (!traced) return kFailed;
  std::vector<std::string_view> names;
  for (const program::ParamFacts& param : traced->facts.params) {
    names.push_back(param.name);
  }
  std::optional<size_t> param;
  if (!name.empty()) {
    const char separator = program::ManifestOf(traced->program).separator;
    param = FindParam(names, separator, name, findings);
    if (!param) return kFailed;
  }
  const auto write = [&](Sink& out) {
    if (common.format == "json") {
      return WriteParamFactsJson(traced->program, traced->facts, param, out);
    }
    out.Append(param ? ParamFactsText(traced->program, traced->facts, *param)
                     : AllParamFactsText(traced->facts));
  };
  return PutOut(write, findings) ? kDone : kFailed;
}

// Finds specs that split what the program keeps together. Only axes of tensor
// parallelism count, since the data axes' shards are gathered before use:
//
//   up [512, 2048], sliced at 1024, over tp 4  ->  SHD230: devices 0 and 1 have
//                                                 the gate, 2 and 3 the rest
//   up over tp and down unsharded, one factor  ->  SHD215: its activation is
//                                                 gathered

namespace {

using program::Factor;
using program::FactorList;
using program::FactorRole;
using program::Facts;
using program::ParamFacts;

class ProgramCheck {
 public:
  ProgramCheck(const TracedProgram& traced, const Compiled& compiled,
               const Selection& selection)
      : program_(traced.program),
        facts_(traced.facts),
        compiled_(compiled),
        selection_(selection) {
    constexpr AxisRule kTensor[] = {
        AxisRule::kTensorParallel, AxisRule::kHead, AxisRule::kKvHead,
        AxisRule::kMlpIntermediate, AxisRule::kVocab};
    for (const AxisRule rule : kTensor) {
      for (const std::string& axis : compiled.rules.axes.Value(rule).axes) {
        tensor_.insert(axis);
      }
    }
  }

  FindingSink Run() {
    std::unordered_map<std::string_view, uint32_t> params;
    for (uint32_t i = 0; i < facts_.params.size(); ++i) {
      params.emplace(facts_.params[i].name, i);
    }
    for (size_t i = 0; i < compiled_.plan.params.size(); ++i) {
      const auto at = params.find(compiled_.plan.names[i]);
      if (at == params.end()) continue;
      const ParamLayout& layout =
          compiled_.plan.layouts[compiled_.plan.params[i].layout];
      const ParamFacts& param = facts_.params[at->second];
      if (compiled_.plan.types[layout.type].shape != param.shape) continue;
      for (const ModeLayout& mode : layout.modes) {
        CheckParam(param, static_cast<uint32_t>(i), layout, mode);
      }
    }
    CheckTogether();
    FindingSink out;
    for (auto& [key, one] : found_) out.push_back(std::move(one));
    return out;
  }

 private:
  // A parameter of which a factor leads a dimension.
  struct Led {
    uint32_t param = 0;
    int32_t rule = -1;
    AxisGroup axes;
  };

  AxisGroup TensorAxes(const Spec& spec, size_t d) const {
    AxisGroup out;
    if (d >= spec.size()) return out;
    for (const std::string& axis : spec[d]) {
      if (tensor_.contains(axis) && compiled_.mesh.SizeOf(axis) > 1) {
        out.push_back(axis);
      }
    }
    return out;
  }

  std::string AxesText(const AxisGroup& axes) const {
    std::string out;
    for (const std::string& axis : axes) {
      out += (out.empty() ? "`" : " and `") + axis + "` of size " +
             std::to_string(compiled_.mesh.SizeOf(axis));
    }
    return out;
  }

  // Returns " at model.py:12" for the first line with this use.
  std::string LineOf(const Factor& factor, program::Use use) const {
    for (const program::Evidence& one : factor.evidence) {
      if (one.use == use && one.at.known()) {
        return " at " + program_.LineText(one.at);
      }
    }
    return "";
  }

  void Add(const Lint& lint, uint32_t param, int32_t rule,
           const std::string& subject, std::string message, std::string help) {
    if (!selection_.Selects(lint)) return;
    auto [at, fresh] = found_.try_emplace({lint.code.number, rule, message});
    LintFinding& finding = at->second;
    if (fresh) {
      finding.code = &lint.code;
      finding.level = lint.code.level;
      finding.place = RulePlace(rule);
      finding.message = subject + message;
      finding.help = std::move(help);
    }
    if (std::ranges::find(finding.members, param) == finding.members.end()) {
      finding.members.push_back(param);
    }
  }

  Place RulePlace(int32_t rule) const {
    if (rule < 0) return {compiled_.manifest.source};
    const Rule& written = compiled_.rules.rules[AsIndex(rule)];
    return written.match_place.HasPosition() ? written.match_place
                                             : written.place;
  }

  static std::string Subject(size_t d, std::string_view name) {
    return "dimension " + std::to_string(d) + " of " + ShortQuote(name);
  }

  void CheckParam(const ParamFacts& param, uint32_t number,
                  const ParamLayout& layout, const ModeLayout& mode) {
    const int32_t rule = layout.rule;
    for (size_t d = 0; d < param.dims.size(); ++d) {
      const FactorList& dim = param.dims[d];
      if (dim.empty()) continue;
      const AxisGroup axes = TensorAxes(mode.spec, d);
      const Factor& lead = facts_.factors[dim[0]];
      if (lead.parts.empty()) {
        places_[dim[0]].push_back({number, rule, axes});
      }
      if (axes.empty()) continue;
      const int64_t parts = compiled_.mesh.Parts(axes).value_or(1);
      if (!lead.parts.empty()) {
        if (PartsAt(layout.parts, d) > 1) continue;
        Add(kFusedContiguous, number, rule, Subject(d, param.name),
            " holds " + std::to_string(lead.parts.size()) +
                " parts one after the other, " + facts_.Text(dim) +
                ", which the program separates" +
                LineOf(lead, program::Use::kDivided) + ", and " +
                AxesText(axes) + " shards it in contiguous ranges",
            "leave the dimension unsharded, or store the parts as a dimension "
            "of their own");
        continue;
      }
      const FactorList sharded = facts_.Sharded(dim, parts);
      const bool inside =
          sharded.size() > 1 &&
          facts_.factors[sharded.back()].role == FactorRole::kHeadDim;
      if (sharded.empty() || inside) {
        Add(kHeadSplit, number, rule, Subject(d, param.name),
            " is " + facts_.Text(dim) + ", and " + AxesText(axes) +
                " splits inside of it",
            "use a size that divides " + facts_.Text({dim[0]}));
      }
      for (const uint32_t factor : sharded) {
        const Factor& one = facts_.factors[factor];
        if (LineOf(one, program::Use::kOpaque).empty()) continue;
        Add(kClashMovesActivation, number, rule, Subject(d, param.name),
            " is sharded over " + AxesText(axes) +
                ", and an op that is not known reads it" +
                LineOf(one, program::Use::kOpaque) +
                ", so that its operand is gathered",
            "leave it unsharded, or run the op in `jax.shard_map`");
      }
    }
  }

  // Reports parameters that have a factor in common of which only some are
  // sharded over an axis.
  void CheckTogether() {
    for (const auto& [index, places] : places_) {
      const Factor& factor = facts_.factors[index];
      const bool heads = factor.role == FactorRole::kHeads ||
                         factor.role == FactorRole::kKvHeads;
      if (!heads && factor.role != FactorRole::kInner) continue;
      const Led* sharded = nullptr;
      for (const Led& one : places) {
        if (!one.axes.empty()) sharded = &one;
      }
      if (sharded == nullptr) continue;
      for (const Led& one : places) {
        if (one.axes == sharded->axes) continue;
        Add(heads ? kAttentionReshard : kMlpReshard, one.param, one.rule,
            ShortQuote(compiled_.plan.names[one.param]),
            " is not sharded over " + AxesText(sharded->axes) + " as " +
                ShortQuote(compiled_.plan.names[sharded->param]) +
                " is, but both have " + facts_.Text({index}) +
                ", which a dot contracts" +
                LineOf(factor, program::Use::kContracted),
            "shard both over the same axis");
      }
    }
  }

  const program::Program& program_;
  const Facts& facts_;
  const Compiled& compiled_;
  const Selection& selection_;
  std::set<std::string, std::less<>> tensor_;
  // Keyed by the index of the factor.
  std::map<uint32_t, std::vector<Led>> places_;
  // Keyed by code, rule, and the message without the parameter's name.
  std::map<std::tuple<int, int32_t, std::string>, LintFinding> found_;
};

}  // namespace

FindingSink ProgramFindings(const TracedProgram& traced,
                            const Compiled& compiled,
                            const Selection& selection) {
  return ProgramCheck(traced, compiled, selection).Run();
}

}  // namespace shardc::cli
