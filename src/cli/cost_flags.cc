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

namespace {

// The heading of a setting in help. Settings that have an effect in all modes
// are under the heading of the command's own options.
std::string HeadingOf(cost::SettingModes modes) {
  switch (modes) {
    case cost::SettingModes::kTrain:
      return "Training";
    case cost::SettingModes::kServing:
      return "Serving";
    case cost::SettingModes::kAll:
    case cost::SettingModes::kPrompts:
      break;
  }
  return {};
}

}  // namespace

SettingFlags::SettingFlags() : values_(cost::SettingRows().size()) {}

Option SettingFlags::OptionAt(size_t row) {
  const cost::SettingRow& of = cost::SettingRows()[row];
  Option out = OptionOfSetting(of.flag, &values_[row].text);
  if (of.value.empty()) out.to = &values_[row].on;
  out.group = HeadingOf(of.modes);
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

Target SettingFlags::Replacing(Target target) const {
  for (size_t i = 0; i < values_.size(); ++i) {
    const std::string flag(cost::SettingRows()[i].flag);
    const std::string text = values_[i].on ? "true" : values_[i].text;
    if (text.empty()) continue;
    std::erase_if(target.step_options,
                  [&](const StepOption& one) { return one.name == flag; });
    target.step_options.push_back({flag, text, FlagPlace(flag, text)});
  }
  return target;
}

Option OptionOfSetting(std::string_view flag, std::string* to) {
  const cost::SettingRow& row = cost::SettingRowOf(flag);
  Option out = {.name = std::string(flag),
                .need = row.need,
                .to = to,
                .value = std::string(row.value),
                .help = std::string(row.help)};
  if (row.words != nullptr) out.words = Words(row.words);
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

// The options of pipeline stages. Each replaces one key of the declared stages,
// so that what reads the declaration need not know where a value is from:
//
//   stages: {axis: pp, virtual: 2} and --schedule zbv
//     ->  stages: {axis: pp, virtual: 2, schedule: zbv}

namespace {

constexpr std::string_view kEvenLayers = "even", kCheapestLayers = "cost";

// Sets the division of layers to the value of `--assign`. Returns false after a
// finding.
bool ReadAssign(const std::string& text, StageDeclaration& out,
                Findings& findings) {
  out.listed.clear();
  out.assign_place = {};
  if (text == kEvenLayers || text == kCheapestLayers) {
    out.assign = text == kEvenLayers ? StageAssignment::kEven
                                     : StageAssignment::kSearched;
    return true;
  }
  out.assign = StageAssignment::kListed;
  for (const std::string& part : SplitList({text})) {
    const auto layers = ParseInteger("--assign", part, 0, findings);
    if (!layers) return false;
    out.listed.push_back(*layers);
  }
  return true;
}

}  // namespace

Options OptionsOf(StageFlags& flags) {
  return {{.name = "--stages",
           .need = HelpNeed::kOften,
           .to = &flags.axis,
           .value = "AXIS|none",
           .help = "axis of the mesh that has the stages of a "
                   "pipeline; none: into no stages (default: the "
                   "`stages:` of the rules or of the target)"},
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
           .need = HelpNeed::kOften,
           .to = &flags.schedule,
           .value = "NAME|FILE",
           .help = "schedule of the pipeline, or a file in PyTorch's CSV "
                   "(default: that of `stages:`, else 1f1b)",
           .words = ScheduleNames},
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

bool OverrideStages(const StageFlags& flags,
                    std::optional<StageDeclaration>& stages,
                    Findings& findings) {
  if (flags.None()) stages.reset();
  if (!CheckStageFlags(flags, stages.has_value(), findings)) return false;
  if (flags.Given()) {
    if (!stages) {
      stages.emplace().assign = StageAssignment::kSearched;
      stages->microbatches = 1;
    }
    stages->axis = flags.axis;
    stages->axis_place = FlagPlace("--stages", flags.axis);
  }
  if (!stages) return true;
  const size_t before = findings.errors();
  if (!flags.virtual_stages.empty()) {
    stages->virtual_stages =
        ScheduleSize("--virtual", flags.virtual_stages, findings);
    stages->virtual_place = FlagPlace("--virtual", flags.virtual_stages);
  }
  if (!flags.schedule.empty()) {
    stages->schedule = flags.schedule;
    stages->schedule_is_file = IsScheduleFile(flags.schedule);
    stages->schedule_place = FlagPlace("--schedule", flags.schedule);
  }
  return findings.errors() == before &&
         (flags.assign.empty() || ReadAssign(flags.assign, *stages, findings));
}

StagedTarget CompileStaged(const StageFlags& flags, const InputFlags& inputs,
                           const Target& target, const Common& common,
                           Findings& findings) {
  StagedTarget out;
  auto opened = LoadTarget(inputs, target, common, findings);
  if (!opened || !OverrideStages(flags, opened->stages, findings)) return out;
  out.model = opened->model;
  out.declared = opened->stages;
  out.compiled = CompileTarget(std::move(*opened), findings);
  return out;
}

bool CheckStageSizes(const Place& place, const StageSizes& sizes,
                     Findings& findings) {
  if (sizes.mode != Mode::kTrain) {
    findings.Add(code::kUsage, place,
                 "`stages` are for training: a schedule has backward tasks",
                 "leave out `--mode`, or pass `--stages none` for the model on "
                 "one stage");
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

std::shared_ptr<const PlannedStages> StagesOf(const StagedTarget& target,
                                              const StageSizes& sizes,
                                              Findings& findings) {
  const Compiled& compiled = *target.compiled;
  const StageDeclaration& declared = *target.declared;
  if (!StageRanks(compiled.mesh, declared.axis, declared.axis_place,
                  findings) ||
      !CheckStageSizes(declared.axis_place, sizes, findings)) {
    return nullptr;
  }
  const std::optional<int64_t> asked = sizes.microbatches;
  if (asked && (compiled.stages == nullptr ||
                compiled.stages->table.microbatches != *asked)) {
    return Divided(compiled, target.config(), declared, asked, findings);
  }
  // If the stages were refused, `compiled.stages` is null, and `stage_findings`
  // has the reasons.
  for (const Finding& finding : compiled.stage_findings) {
    findings.Add(finding);
  }
  return compiled.stages;
}

std::shared_ptr<const PlannedStages> Divided(
    const Compiled& compiled, const ModelConfig* config,
    const StageDeclaration& declared, std::optional<int64_t> microbatches,
    Findings& findings) {
  const auto request =
      StageRequestOn(declared, compiled.mesh, microbatches, findings);
  auto stages = request ? DivideIntoStages(compiled, config, *request, findings)
                        : std::nullopt;
  return stages ? std::make_shared<const PlannedStages>(std::move(*stages))
                : nullptr;
}

std::optional<StageRequest> StageRequestOn(const StageDeclaration& declared,
                                           const Mesh& mesh,
                                           std::optional<int64_t> microbatches,
                                           Findings& findings) {
  if (!microbatches) return DeclaredRequest(declared, mesh, {}, findings);
  const auto number =
      ScheduleSize("--microbatches", std::to_string(*microbatches), findings);
  return number ? DeclaredRequest(declared, mesh, number, findings)
                : std::nullopt;
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
  if (!CheckStageSizes(view.mesh_place, sizes, findings)) {
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
