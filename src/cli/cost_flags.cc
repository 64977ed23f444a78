// Takes the values of settings from the options of `cost` and, where an option
// is not given, from the keys of the target.
#include "cli/cost_flags.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/inputs.h"
#include "cli/output.h"
#include "model/option_value.h"
#include "source/wording.h"

namespace shardc::cli {

SettingFlags::SettingFlags() : values_(cost::SettingRows().size()) {}

Option SettingFlags::OptionAt(size_t row) {
  const cost::SettingRow& of = cost::SettingRows()[row];
  Option out = OptionOfSetting(of.flag, &values_[row].text);
  if (of.value.empty()) out.to = &values_[row].on;
  return out;
}

Options SettingFlags::AsOptions() {
  Options out;
  for (size_t row = 0; row < values_.size(); ++row) {
    out.push_back(OptionAt(row));
  }
  return out;
}

size_t SettingFlags::RowOf(std::string_view flag) {
  return static_cast<size_t>(&cost::SettingRowOf(flag) -
                             cost::SettingRows().data());
}

std::vector<cost::GivenSetting> SettingFlags::Given(const Target& target,
                                                    Mode mode) const {
  std::vector<cost::GivenSetting> out;
  for (size_t i = 0; i < values_.size(); ++i) {
    const cost::SettingRow& row = cost::SettingRows()[i];
    const std::string text = values_[i].on ? "true" : values_[i].text;
    if (!text.empty()) {
      out.push_back({row.flag, text, FlagPlace(row.flag, text)});
      continue;
    }
    for (const StepOption& one : target.step_options) {
      if (one.name == row.flag && HasEffect(row.modes, mode)) {
        out.push_back({row.flag, one.value, one.place});
      }
    }
    if (row.flag != "--operation") continue;
    for (const VerifyInput::Named& one : target.verify.operations) {
      if (one.mode && *one.mode != mode) continue;
      out.push_back(
          {row.flag, one.operation, FlagPlace(row.flag, one.operation)});
      break;
    }
  }
  return out;
}

Option OptionOfSetting(std::string_view flag, std::string* to) {
  const cost::SettingRow& row = cost::SettingRowOf(flag);
  Option out = {.name = std::string(flag),
                .to = to,
                .value = std::string(row.value),
                .help = std::string(row.help)};
  if (row.words == nullptr) return out;
  for (const std::string_view word : row.words()) out.words.emplace_back(word);
  return out;
}

Options OptionsOfCost(CostFlags& flags) {
  Options options = {ModeOption(&flags.mode)};
  Append(options, flags.settings.AsOptions());
  Append(options, AllInputs(flags.inputs));
  return options;
}

std::optional<cost::Settings> CostSettings(const CostFlags& flags,
                                           const Target& target, Mode mode,
                                           Findings& findings) {
  cost::Settings base;
  base.batch = target.batch;
  base.kv_length = target.kv_len;
  base.memory = target.memory_bytes;
  return cost::ReadSettings(flags.settings.Given(target, mode), mode,
                            std::move(base), findings);
}

bool GivesMicrobatches(const CostFlags& flags, const Target& target,
                       Mode mode) {
  const auto given = flags.settings.Given(target, mode);
  return std::any_of(given.begin(), given.end(),
                     [](const cost::GivenSetting& one) {
                       return one.flag == "--microbatches";
                     });
}

// Converts the options of pipeline stages to a request. The number of ranks is
// the size of the stage axis:
//
//   --stages pp --schedule zbv --microbatches 64 with pp:8
//     ->  the table of zbv on 8 ranks with 16 stages, 2 on each rank

namespace {

constexpr std::string_view kEvenLayers = "even", kCheapestLayers = "cost";

// Sets the division of layers to the value of `--assign`, if that is given.
// Returns false after a finding.
bool ReadAssign(const StageFlags& flags, StageRequest& out,
                Findings& findings) {
  if (flags.assign.empty()) return true;
  out.layers.clear();
  out.layers_name = "`--assign`";
  out.layers_place = {};
  out.balance = flags.assign == kCheapestLayers ? StageBalance::kSearched
                                                : StageBalance::kEven;
  if (flags.assign == kEvenLayers || flags.assign == kCheapestLayers)
    return true;
  for (const std::string& part : SplitList({flags.assign})) {
    const auto layers = ParseInteger("--assign", part, 0, findings);
    if (!layers) return false;
    out.layers.push_back(*layers);
  }
  return true;
}

Place StagesPlace(const StageFlags& flags, const StageDeclaration* declared) {
  return declared != nullptr && !flags.Given()
             ? declared->axis_place
             : FlagPlace("--stages", flags.axis);
}

bool CheckSizes(const Place& place, bool given, const StageSizes& sizes,
                Findings& findings) {
  if (sizes.mode != Mode::kTrain) {
    findings.Add(code::kUsage, place,
                 std::string(given ? "`--stages` is" : "`stages` are") +
                     " for training: a schedule has backward tasks",
                 given ? "leave out `--mode`"
                       : "leave out `--mode`, or pass `--stages none` for the "
                         "model on one stage");
    return false;
  }
  if (!sizes.batch || !sizes.length) {
    findings.Add(code::kUsage, place,
                 "the times and activations of stages need a batch and a "
                 "length",
                 "give `--batch` and `--seq`");
    return false;
  }
  return true;
}

// Returns the table of `--schedule` (default: 1f1b) for the sizes in the flags.
// Returns nullopt after a finding.
std::optional<schedule::Table> ScheduleTableOf(const StageFlags& flags,
                                               const Mesh& mesh,
                                               const std::string& axis,
                                               const StageSizes& sizes,
                                               Findings& findings) {
  const size_t before = findings.errors();
  ScheduleChoice choice{flags.schedule.empty() ? "1f1b" : flags.schedule,
                        "--schedule"};
  choice.ranks =
      ScheduleSize("--stages", std::to_string(mesh.SizeOf(axis)), findings);
  choice.virtual_stages =
      ScheduleSize("--virtual", flags.virtual_stages, findings);
  choice.microbatches =
      ScheduleSize("--microbatches",
                   std::to_string(sizes.microbatches.value_or(1)), findings);
  if (findings.errors() > before) return std::nullopt;
  return ScheduleTable(choice, findings);
}

// Returns the stages that a file declares. If a flag is given, its value
// replaces the declared key. Returns nullopt after a finding.
std::optional<StageRequest> MergedStages(const StageFlags& flags,
                                         const StageDeclaration& declared,
                                         const Mesh& mesh,
                                         std::optional<int64_t> given,
                                         Findings& findings) {
  StageDeclaration own = declared;
  if (flags.Given()) {
    own.axis = flags.axis;
    own.axis_place = {};
  }
  if (!flags.virtual_stages.empty()) {
    own.virtual_stages =
        ScheduleSize("--virtual", flags.virtual_stages, findings);
    own.virtual_place = FlagPlace("--virtual", flags.virtual_stages);
    if (!own.virtual_stages) return std::nullopt;
  }
  std::optional<int32_t> microbatches;
  if (given) {
    microbatches =
        ScheduleSize("--microbatches", std::to_string(*given), findings);
    if (!microbatches) return std::nullopt;
  }
  if (!flags.schedule.empty()) {
    own.schedule = flags.schedule;
    own.schedule_is_file = IsScheduleFile(flags.schedule);
    own.schedule_place = FlagPlace("--schedule", flags.schedule);
  }
  auto out = DeclaredRequest(own, mesh, microbatches, findings);
  if (!out || !ReadAssign(flags, *out, findings)) return std::nullopt;
  return out;
}

// Returns the stages that the flags describe, for a target that declares no
// stages.
std::optional<StageRequest> FlaggedStages(const StageFlags& flags,
                                          const Mesh& mesh,
                                          const StageSizes& sizes,
                                          Findings& findings) {
  StageRequest out;
  out.axis = flags.axis;
  out.balance = StageBalance::kSearched;
  if (!ReadAssign(flags, out, findings)) return std::nullopt;
  auto table = ScheduleTableOf(flags, mesh, flags.axis, sizes, findings);
  if (!table) return std::nullopt;
  out.table = std::move(*table);
  return out;
}

// Returns whether the flags leave the declared stages unchanged. The stages
// with which the target was compiled can then be used.
bool AskForDeclared(const StageFlags& flags, const Compiled& compiled,
                    std::optional<int64_t> microbatches) {
  if (flags.Given() || !flags.assign.empty() || !flags.virtual_stages.empty() ||
      !flags.schedule.empty()) {
    return false;
  }
  return !microbatches ||
         (compiled.stages != nullptr &&
          compiled.stages->table.microbatches == *microbatches);
}

std::shared_ptr<const PlannedStages> Divided(
    const std::optional<StageRequest>& request, const Compiled& compiled,
    const ModelConfig* config, Findings& findings) {
  if (!request) return nullptr;
  auto stages = DivideIntoStages(compiled, config, *request, findings);
  if (!stages) return nullptr;
  return std::make_shared<const PlannedStages>(std::move(*stages));
}

}  // namespace

Options OptionsOf(StageFlags& flags) {
  return {{.name = "--stages",
           .to = &flags.axis,
           .value = "AXIS|none",
           .help = "divide the layers into stages over this axis of the mesh "
                   "(default: the `stages:` of the rules or of the target); "
                   "none: into no stages"},
          {.name = "--assign",
           .to = &flags.assign,
           .value = "even|cost|N,...",
           .help = "layers of the stages: so that the longest stage is "
                   "shortest (cost, the default of --stages), evenly, or a "
                   "number for each stage"},
          {.name = "--virtual",
           .to = &flags.virtual_stages,
           .value = "N",
           .help = "stages on each rank (default: that of `stages:`, else 1, "
                   "or 2 where the schedule has several)"},
          {.name = "--schedule",
           .to = &flags.schedule,
           .value = "NAME|FILE",
           .help = "schedule of the pipeline, or a file in PyTorch's CSV "
                   "(default: that of `stages:`, else 1f1b)",
           .words = ScheduleNames()},
          {.name = "--p2p",
           .to = &flags.p2p,
           .value = "overlapped|exposed",
           .help = "whether a rank computes while it sends to the next stage "
                   "(default: overlapped)",
           .checked = true}};
}

bool CheckStageFlags(const StageFlags& flags, bool declared,
                     Findings& findings) {
  if (flags.Given() || flags.None() || declared) return true;
  const std::string nothing;
  const std::pair<std::string_view, const std::string&> given[] = {
      {"--assign", flags.assign},
      {"--virtual", flags.virtual_stages},
      {"--schedule", flags.schedule},
      {"--p2p", flags.Exposed() ? flags.p2p : nothing}};
  for (const auto& [name, value] : given) {
    if (value.empty()) continue;
    findings.Add(code::kUsage, FlagPlace(name, value),
                 "`" + std::string(name) +
                     "` has an effect only if the model is divided into "
                     "stages, and nothing divides it",
                 "give the axis of the stages with `--stages`");
    return false;
  }
  return true;
}

StagedTarget CompileStaged(const StageFlags& flags, const InputFlags& inputs,
                           const Target& target, const Common& common,
                           Findings& findings) {
  StagedTarget out;
  auto opened = LoadTarget(inputs, target, common, findings);
  if (!opened) return out;
  out.model = opened->model;
  if (!flags.None()) out.declared = opened->stages;
  if (!CheckStageFlags(flags, opened->stages.has_value(), findings)) return out;
  out.compiled = CompileTarget(std::move(*opened), findings);
  return out;
}

std::shared_ptr<const PlannedStages> DeclaredOrMergedStages(
    const StageFlags& flags, const StageDeclaration& declared,
    const Compiled& compiled, const ModelConfig* config,
    std::optional<int64_t> microbatches, Findings& findings) {
  if (!AskForDeclared(flags, compiled, microbatches)) {
    return Divided(
        MergedStages(flags, declared, compiled.mesh, microbatches, findings),
        compiled, config, findings);
  }
  // If the declared stages were refused, `compiled.stages` is null, and
  // `stage_findings` has the reasons.
  for (const Finding& finding : compiled.stage_findings) {
    findings.Add(finding);
  }
  return compiled.stages;
}

const std::string& StageAxis(const StageFlags& flags,
                             const StageDeclaration* declared) {
  return flags.Given() || declared == nullptr ? flags.axis : declared->axis;
}

std::optional<StageRequest> StageRequestOn(const StageFlags& flags,
                                           const StageDeclaration* declared,
                                           const Mesh& mesh,
                                           const StageSizes& sizes,
                                           Findings& findings) {
  if (!StageRanks(mesh, StageAxis(flags, declared),
                  StagesPlace(flags, declared), findings)) {
    return std::nullopt;
  }
  return declared == nullptr ? FlaggedStages(flags, mesh, sizes, findings)
                             : MergedStages(flags, *declared, mesh,
                                            sizes.microbatches, findings);
}

bool CheckStageSizes(const StageFlags& flags, const StageDeclaration* declared,
                     const StageSizes& sizes, Findings& findings) {
  return CheckSizes(StagesPlace(flags, declared), flags.Given(), sizes,
                    findings);
}

std::shared_ptr<const PlannedStages> StagesOfCommand(
    const StageFlags& flags, const StageDeclaration* declared,
    const Compiled& compiled, const ModelConfig* config,
    const StageSizes& sizes, Findings& findings) {
  if (!StageRanks(compiled.mesh, StageAxis(flags, declared),
                  StagesPlace(flags, declared), findings) ||
      !CheckStageSizes(flags, declared, sizes, findings)) {
    return nullptr;
  }
  return declared == nullptr
             ? Divided(FlaggedStages(flags, compiled.mesh, sizes, findings),
                       compiled, config, findings)
             : DeclaredOrMergedStages(flags, *declared, compiled, config,
                                      sizes.microbatches, findings);
}

std::optional<StagedPlan> PlanStagesOfCommand(const StageFlags& flags,
                                              const ReadPlan& view,
                                              const StageSizes& sizes,
                                              Findings& findings) {
  const std::string nothing;
  const std::pair<std::string_view, const std::string&> given[] = {
      {"--assign", flags.assign},
      {"--virtual", flags.virtual_stages},
      {"--schedule",
       IsScheduleFile(flags.schedule) ? nothing : flags.schedule}};
  for (const auto& [name, value] : given) {
    if (value.empty()) continue;
    findings.Add(code::kUsage, FlagPlace(name, value),
                 "the plan is divided into stages already, which `" +
                     std::string(name) + "` would replace",
                 "give the inputs in place of `--plan`");
    return std::nullopt;
  }
  if (!CheckSizes(view.mesh_place, false, sizes, findings)) {
    return std::nullopt;
  }
  PlanSchedule schedule = {flags.schedule};
  if (sizes.microbatches) {
    schedule.microbatches = ScheduleSize(
        "--microbatches", std::to_string(*sizes.microbatches), findings);
    if (!schedule.microbatches) return std::nullopt;
  }
  return StagedPlanOf(view, schedule, findings);
}

}  // namespace shardc::cli
