// `shardc cost`: prints the cost of a plan in one mode. The plan is compiled
// from the inputs (mesh, rules, manifest) or read from a plan file.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "cli/commands.h"
#include "cli/compared_program.h"
#include "cli/cost_flags.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/pictured.h"
#include "cli/planned.h"
#include "cli/program_plan.h"
#include "cli/serving_flags.h"
#include "cost/report.h"
#include "emit/costs/cost_report.h"
#include "model/option_value.h"
#include "parse/project.h"
#include "plan/plan_table.h"
#include "source/file.h"
#include "source/json.h"

namespace shardc::cli {
namespace {

struct CostCommand {
  CostFlags flags;
  StageFlags stages;
  ServingFlags serving;
  std::string plan, output;
  // A traced program whose cost is wanted in place of a model's.
  std::string program;
  bool donate = false;
  bool explain = false, profiles = false, allow_edited = false;
};

// The source of the plan. Without `--plan`, `target` has the compiled inputs.
// With `--plan`, `view` has the plan that was read from the file.
struct Inputs {
  StagedTarget target;
  std::optional<ReadPlan> view;

  // Returns whether the layers are divided into pipeline stages. The plan file,
  // the flags, the rules or the target may divide them.
  bool HasStages(const StageFlags& flags) const {
    return view ? view->stages.has_value() && !flags.None()
                : target.declared.has_value();
  }
};

// Reads the plan file of `--plan` into `inputs.view`. Also reads the
// config.json `model` unless its name is empty. Returns nullopt after a
// finding. If the plan has an illegal spec, sets `found` to true.
std::optional<cost::CostInputs> ReadWork(const CostCommand& command,
                                         const std::string& model, Mode mode,
                                         bool& found, Inputs& inputs,
                                         Findings& findings) {
  inputs.view =
      ReadPlanFile(command.plan, EditedPlanOf(command.allow_edited), findings);
  std::optional<ModelConfig>& config = inputs.target.model;
  if (!model.empty() && inputs.view) {
    config = OpenModel(model, command.flags.inputs.asked.families, *inputs.view,
                       findings);
  }
  if (!inputs.view || (!model.empty() && !config)) return std::nullopt;
  if (!CheckMode(inputs.view->modes, mode, findings)) return std::nullopt;
  found = HasIllegalSpec(*inputs.view, findings);
  if (found) return std::nullopt;
  const bool staged = inputs.view->stages.has_value();
  if (!CheckStageFlags(command.stages, staged, findings)) return std::nullopt;
  return inputs.HasStages(command.stages) && mode == Mode::kTrain
             ? cost::StagedPlanInputs(*inputs.view, config)
             : cost::MakeCostInputs(*inputs.view, config, mode);
}

// Returns the flags with `mode` added to the modes to compile. If the flags
// list no modes, the target's modes are copied to the flags first. Train is
// always compiled, so it is never added. If neither the flags nor the target
// list modes, all modes are compiled, and nothing is added.
//
//   target's modes train,prefill; mode decode  ->  train,prefill,decode
InputFlags WithMode(InputFlags flags, const Target& target, Mode mode) {
  const bool all = flags.modes.empty() && target.modes.empty();
  if (all || mode == Mode::kTrain) return flags;
  if (flags.modes.empty()) {
    for (const Mode one : target.modes) flags.modes.emplace_back(ModeName(one));
  }
  flags.modes.emplace_back(ModeName(mode));
  return flags;
}

// Compiles the inputs. Returns nullopt after a finding. If the inputs can be
// read but do not compile to a valid plan, sets `found` to true, and the exit
// status is 1.
std::optional<cost::CostInputs> CompileWork(const CostCommand& command,
                                            const Target& target,
                                            const Common& common, Mode mode,
                                            bool& found, Inputs& inputs,
                                            Findings& findings) {
  InputFlags flags = WithMode(command.flags.inputs, target, mode);
  flags.trains = mode == Mode::kTrain;
  inputs.target =
      CompileStaged(command.stages, flags, target, common, findings);
  if (inputs.target.compiled == nullptr) return std::nullopt;
  auto work = CompiledWork(inputs.target, mode, findings);
  found = !work;
  return work;
}

int ListProfiles(const CostCommand& command, const Common& common,
                 Findings& findings) {
  const auto write = [&](Sink& out) {
    if (common.format == "json") {
      WriteProfileListJson(out);
    } else {
      out.Append(ProfileListText());
    }
  };
  return PutResult(write, command.output, findings) ? kDone : kFailed;
}

// Returns the cost of the pipeline stages of the plan file or, without one, of
// the compiled plan. Returns nullopt after a finding.
std::optional<cost::PipelineCost> StageCosts(const StageFlags& flags,
                                             const Inputs& inputs,
                                             const cost::CostInputs& work,
                                             const cost::Settings& settings,
                                             const StageSizes& sizes,
                                             Findings& findings) {
  if (inputs.view) {
    const auto staged =
        PlanStagesOfCommand(flags, *inputs.view, sizes, findings);
    if (!staged) return std::nullopt;
    return cost::PipelineCostOf(*staged, work, settings, flags.Exposed(),
                                findings);
  }
  return CostOfStages(inputs.target, work, settings, flags.Exposed(), sizes,
                      findings);
}

// Prints the cost of each pipeline stage. It is called only if the model is
// divided into stages. Otherwise the command prints the cost of all layers
// together.
int RunStages(const CostCommand& command, const Inputs& inputs,
              const cost::CostInputs& work, const cost::Settings& settings,
              const Target& target, const Common& common, Findings& findings) {
  StageSizes sizes = {work.mode, settings.batch, settings.length, {}};
  if (GivesMicrobatches(command.flags, target, work.mode)) {
    sizes.microbatches = settings.microbatches;
  }
  const auto cost =
      StageCosts(command.stages, inputs, work, settings, sizes, findings);
  if (!cost) return StageStatus(findings);
  const auto write = [&](Sink& out) {
    if (common.format == "json") {
      WritePipelineJson(*cost, target.name, out);
    } else {
      out.Append(
          PipelineReportText(*cost, MeshText(work.mesh), command.explain));
    }
  };
  if (!PutResult(write, command.output, findings)) return kFailed;
  const bool asked = cost->capacity || cost->settings.profile != nullptr;
  const bool missing = asked && (!work.not_known.empty() || work.LacksLayers());
  return cost->Fits().value_or(true) && !missing ? kDone : kFound;
}

// Prints what an engine reaches with the plan. The status is 1 if no request
// fits, or if no time is known although an engine is given.
int RunServing(const CostCommand& command, const cost::CostInputs& work,
               const cost::Settings& settings, cost::ServingRequest request,
               const Target& target, const Common& common, Findings& findings) {
  request.weighs_settings = true;
  cost::ServingReport report = cost::ServingOf(work, settings, request);
  report.target = target.name;
  const auto write = [&](Sink& out) {
    if (common.format == "json") {
      WriteServingJson(report, out);
    } else {
      out.Append(ServingReportText(report, command.explain));
    }
  };
  if (!PutResult(write, command.output, findings)) return kFailed;
  const bool timed = report.times || request.engine == nullptr;
  return timed && report.full_slots.value_or(0) > 0 ? kDone : kFound;
}

int RunProgram(const CostCommand& command, const Common& common,
               Findings& findings);

// Returns the mode whose cost is printed if none is given: train, or the first
// mode of a target that is never trained, such as that of an engine.
Mode DefaultMode(const Target& target) {
  const bool trains =
      target.modes.empty() ||
      std::ranges::find(target.modes, Mode::kTrain) != target.modes.end();
  return trains ? Mode::kTrain : target.modes.front();
}

int RunCost(const CostCommand& given, const Common& common,
            Findings& findings) {
  if (!given.program.empty()) return RunProgram(given, common, findings);
  if (!CheckDonate(given.donate, given.program, findings)) return kFailed;
  CostCommand command = given;
  if (command.profiles) return ListProfiles(command, common, findings);
  const auto target =
      TargetOrPlan(command.flags.inputs, command.plan, findings);
  if (!target) return kFailed;
  if (command.flags.mode.empty()) {
    command.flags.mode = ModeName(DefaultMode(*target));
  }
  const auto mode = ParseModeFlag(command.flags.mode, findings);
  if (!mode) return kFailed;
  if (command.stages.Given() && !command.plan.empty()) {
    findings.Add(code::kUsage, FlagPlace("--stages", command.stages.axis),
                 "`--stages` divides the inputs of a plan: a plan file has its "
                 "own stages, or none",
                 "give the inputs in place of `--plan`");
    return kFailed;
  }
  const auto settings = CostSettings(command.flags, *target, *mode, findings);
  if (!CheckServingFlags(command.serving, findings)) return kFailed;
  std::optional<cost::ServingRequest> serving;
  if (command.serving.Given()) {
    serving = ServingRequestOf(command.serving, command.flags, *mode, findings);
    if (!serving) return kFailed;
    // An engine that replicates KV heads does so whatever the rules say.
    const auto& engine = serving->engine;
    if (engine != nullptr && engine->layout && command.plan.empty() &&
        engine->layout->replicates_kv_heads) {
      command.flags.inputs.kv_replicate = true;
    }
  }
  bool found = false;
  Inputs inputs;
  const auto work =
      command.plan.empty()
          ? CompileWork(command, *target, common, *mode, found, inputs,
                        findings)
          : ReadWork(command, target->model, *mode, found, inputs, findings);
  if (!settings || !work) return found ? kFound : kFailed;
  if (serving) {
    serving->stored = StoredFormatsOf(inputs.target.model);
    return RunServing(command, *work, *settings, *serving, *target, common,
                      findings);
  }
  if (inputs.HasStages(command.stages)) {
    return RunStages(command, inputs, *work, *settings, *target, common,
                     findings);
  }
  cost::Report report = CostOf(inputs.target.compiled.get(),
                               inputs.target.model, *work, *settings);
  report.target = target->name;
  const auto write = [&](Sink& out) {
    if (common.format == "json") {
      WriteCostJson(report, out);
    } else {
      out.Append(CostReportText(report, {command.explain}));
    }
  };
  if (!PutResult(write, command.output, findings)) return kFailed;
  return report.memory.Fits().value_or(true) && !report.LacksVerdict() ? kDone
                                                                       : kFound;
}

Options OptionsOf(CostCommand& command) {
  command.flags.mode.clear();
  Options options = {
      {.name = "--plan",
       .need = HelpNeed::kMost,
       .to = &command.plan,
       .value = "FILE",
       .help = "plan file to use instead of the inputs"},
      AllowEditedOption(&command.allow_edited),
      {.name = "--program",
       .need = HelpNeed::kOften,
       .to = &command.program,
       .value = "FILE",
       .help = "traced program of your function, in place of a "
               "model"},
      {.name = "--donate",
       .to = &command.donate,
       .help = "with `--program`: results take the memory of the parameters "
               "and the state that they replace, as with donate_argnums"},
      {.name = "--explain",
       .need = HelpNeed::kOften,
       .to = &command.explain,
       .help = "also list the assumptions, and the tensors of a layer"}};
  Append(options, {{.name = "--profiles",
                    .to = &command.profiles,
                    .help = "list the known accelerators; with the sources of "
                            "their figures"}});
  Append(options, {OutputOption(&command.output)});
  Options costs = OptionsOfCost(command.flags);
  for (Option& option : costs) {
    if (option.name != "--mode") continue;
    option.help =
        "mode: train, prefill, decode or insert (default: train, or the first "
        "of a target's modes if train is none of them)";
  }
  Append(options, std::move(costs));
  Append(options, Under("Pipeline", OptionsOf(command.stages)));
  Append(options, Under("Serving", OptionsOf(command.serving)));
  return options;
}

// Prints the cost of a traced program. The status is 1 if a step takes more
// than the memory of a device, or if the memory or a profile is given and a
// fact is missing.
int RunProgram(const CostCommand& command, const Common& common,
               Findings& findings) {
  if (!RefuseOthers(OptionsOf, command,
                    {"--mesh", "--devices", "--processes", "--rules",
                     "--project", "--no-project", "--allow-outside", "--target",
                     "--mode", "--program", "--plan", "--donate", "--explain",
                     "--profile", "--memory", "--output"},
                    findings)) {
    return kFailed;
  }
  const auto mode = command.flags.mode.empty()
                        ? std::optional(Mode::kTrain)
                        : ParseModeFlag(command.flags.mode, findings);
  const auto program = ReadTracedProgram(command.program, findings);
  if (!mode || !program) return kFailed;
  const auto plan =
      PlanOfProgram(*program, command.plan, command.flags.inputs, *mode,
                    PlannedParts::kSplit, common, findings);
  auto settings = CostSettings(command.flags, Target(), *mode, findings);
  if (!plan || !settings) return kFailed;
  if (plan->found) return kFound;
  if (!CanRunOn(*program, plan->mesh, findings)) return kFailed;
  const Device device = plan->mesh.device.value_or(Device{});
  if (settings->profile == nullptr) {
    settings->profile = FindDeviceProfile(device.profile);
  }
  if (!settings->memory) settings->memory = plan->memory;
  const cost::ProgramCost cost =
      cost::CostOfProgram({.program = &plan->Of(*program),
                           .mesh = plan->mesh,
                           .specs = plan->specs,
                           .profile = settings->profile,
                           .capacity = cost::CapacityOf(device, *settings),
                           .donates = command.donate});
  const ProgramCostTexts texts{
      program->function, plan->mesh,
      settings->profile != nullptr ? std::string(settings->profile->name) : "",
      plan->notes, command.explain};
  const auto write = [&](Sink& out) {
    if (common.format == "json") return WriteProgramCostJson(texts, cost, out);
    out.Append(ProgramCostText(texts, cost));
  };
  if (!PutResult(write, command.output, findings)) return kFailed;
  const bool missing = (cost.capacity && !cost.Fits()) ||
                       (settings->profile != nullptr && !cost.time);
  return missing || !cost.Fits().value_or(true) ? kFound : kDone;
}

}  // namespace

Declared DeclareCost() { return Declare(OptionsOf, RunCost); }

}  // namespace shardc::cli
