// `shardc verify step`: compiles a target as `shardc plan` does, and lowers the
// model that the target's rules describe to one program per mode. Each program
// runs in each dtype, and a report of each run is printed. For example:
//
//   --mode train,decode --dtype float64,float32  ->  four reports
#include "cli/verify_step.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/cost_flags.h"
#include "cli/dump_files.h"
#include "cli/output.h"
#include "cli/plan_findings.h"
#include "cli/ranks.h"
#include "cli/schedule_table.h"
#include "cli/stage_flags.h"
#include "cli/step_memory.h"
#include "cli/step_settings.h"
#include "cli/verify_process.h"
#include "cli/verify_request.h"
#include "cli/verify_stages.h"
#include "emit/verify/program_proof.h"
#include "emit/verify/step_dump.h"
#include "emit/verify/step_json.h"
#include "emit/verify/step_text.h"
#include "model/sub_axis.h"
#include "plan/pack_axes.h"
#include "plan/read.h"
#include "program/read.h"
#include "source/file.h"
#include "source/file_sink.h"
#include "source/memory.h"
#include "source/wording.h"
#include "verify/program/proof.h"
#include "verify/step/step_report.h"

namespace shardc::cli {
namespace {

// The inputs of a run. The steps of the run have pointers to these members.
struct StepInputFiles {
  StepSettings settings;
  std::optional<ModelConfig> model;
  std::shared_ptr<const Compiled> compiled;
  std::optional<verify::StageSettings> stages;
};

bool WriteDump(const std::string& folder, size_t index,
               const verify::StepReport& report, Findings& findings) {
  FileSink file(CaseFile(folder, index, ".json"));
  WriteStepDumpJson(report, file);
  if (!file.Commit(findings)) return false;
  return report.tensors.empty() ||
         WriteToFile(CaseFile(folder, index, ".safetensors"),
                     StepDumpTensors(report), findings);
}

// Returns whether a step program can be made: the plan must have no unmatched
// or illegal parameters, and a rules file must describe the model. Sets `found`
// to true if the plan has such parameters.
bool CanDescribe(const Compiled& compiled, bool& found, Findings& findings) {
  Findings wrong = PlanFindings(compiled);
  found = wrong.HasErrors();
  findings.Append(std::move(wrong));
  return !found && HasDescription(compiled, findings);
}

}  // namespace

bool HasDescription(const Compiled& compiled, Findings& findings) {
  if (compiled.rules.model != nullptr) return true;
  const Place tree{compiled.manifest.source, Place::kEntireFile,
                   Place::kEntireFile};
  findings.Add(code::kUsage, tree,
               "none of the rules files describes the model",
               "a whole step needs a `model:` section, as the packs llama, "
               "mixtral, gpt2 and gemma have it");
  return false;
}

verify::StepRequest UsualStep(const Compiled& compiled,
                              const std::optional<ModelConfig>& model,
                              std::optional<int64_t> batch) {
  verify::StepRequest out;
  static_cast<StepInputs&>(out) =
      UsualStepInputs(compiled, model ? &*model : nullptr, batch);
  return out;
}

namespace {

Options OptionsOf(StepFlags& flags) {
  Options options = MeshInputs(flags.inputs);
  Append(options, RulesInputs(flags.inputs));
  Append(options, ManifestInputs(flags.inputs));
  Append(options, ProjectInputs(flags.inputs));
  Append(options,
         ModelInputs(flags.inputs, "the model's config.json, for its sizes"));
  Append(
      options,
      {{.name = "--mode",
        .to = &flags.modes,
        .value = "MODE,...",
        .help = "the steps to run: train, prefill, decode (default: train)",
        .several = Several::kCommas,
        .words = {"train", "prefill", "decode"}},
       {.name = "--batch",
        .to = &flags.batch,
        .value = "N",
        .help = "rows of the batch, over all devices (default: two a device; "
                "with `stages:`, two a device of a stage in each "
                "micro-batch)"},
       {.name = "--seq",
        .to = &flags.length,
        .value = "N",
        .help = "tokens of a row (default 4096)"},
       {.name = "--operation",
        .to = &flags.operations,
        .value = "NAME",
        .help = "the attention operation (default: plain attention)",
        .several = Several::kCommas},
       {.name = "--policy",
        .to = &flags.policy,
        .value = "published|cost",
        .help = "what is resharded where an axis could serve several "
                "dimensions (default: published)",
        .checked = true},
       {.name = "--part",
        .to = &flags.part,
        .value = "PART",
        .help = "report one part, such as 'layer 0', model or optimizer; a "
                "layer is proved alone"},
       {.name = "--keep-gathered",
        .to = &flags.keep_gathered,
        .help = "in training, keep gathered parameters for the backward pass"},
       RematOption(&flags.remat),
       {.name = "--microbatches",
        .to = &flags.microbatches,
        .value = "N",
        .help = "in training, split the batch into N parts and add their "
                "gradients (default: that of `stages:`, else 1)"},
       ReduceOption(&flags.reduce),
       {.name = "--reduce-each",
        .to = &flags.reduce_each,
        .help = "the same as `--reduce each`"},
       {.name = "--dtype",
        .to = &flags.dtypes,
        .value = "DTYPE,...",
        .help = "of the proof: float64, float32, bfloat16, float16 (default: "
                "float64)",
        .several = Several::kCommas},
       {.name = "--seed",
        .to = &flags.seed,
        .value = "N",
        .help = "of the test data (default 0)"},
       {.name = "--full",
        .to = &flags.full,
        .help = "prove the step at the sizes given, where memory holds them"},
       {.name = "--program",
        .to = &flags.program,
        .value = "FILE",
        .help = "prove the traced program of your function, in place of the "
                "model that the rules describe"},
       {.name = "--plan",
        .to = &flags.plan,
        .value = "FILE",
        .help = "with `--program`: a plan, in place of a mesh and rules"},
       {.name = "--reference",
        .to = &flags.reference,
        .value = "FILE",
        .help = "with `--program`: a traced program of the same inputs whose "
                "results must be equal, such as the function without "
                "`shard_map`"},
       {.name = "--dump",
        .to = &flags.dump,
        .value = "DIR",
        .help = "write each step's tensors and settings to this folder"}});
  Append(options, StepDtypeOptions(flags.step_dtypes));
  Append(options, OptionsOf(flags.stages));
  return options;
}

std::unique_ptr<StepInputFiles> OpenStep(const StepFlags& flags,
                                         const Common& common,
                                         const Ranks& ranks, bool& found,
                                         Findings& findings) {
  const auto target = ChooseTarget(flags.inputs.asked, findings);
  if (!target) return nullptr;
  auto settings = ReadStepSettings(flags, *target, common, ranks, findings);
  auto out = std::make_unique<StepInputFiles>();
  InputFlags inputs = flags.inputs;
  inputs.trains =
      settings && std::find(settings->modes.begin(), settings->modes.end(),
                            Mode::kTrain) != settings->modes.end();
  StagedTarget opened =
      CompileStaged(flags.stages, inputs, *target, common, findings);
  out->model = std::move(opened.model);
  out->compiled = std::move(opened.compiled);
  if (!settings || out->compiled == nullptr) return nullptr;
  if (!CanDescribe(*out->compiled, found, findings)) return nullptr;
  out->settings = std::move(*settings);
  verify::StepRequest& request = out->settings.request;
  const verify::StepRequest usual =
      UsualStep(*out->compiled, out->model, std::nullopt);
  request.compiled = usual.compiled;
  request.config = usual.config;
  if (request.length == 0) request.length = usual.length;
  const auto& modes = out->settings.modes;
  const StepDivision division = {
      .flags = flags.stages,
      .microbatches_given = !flags.microbatches.empty(),
      .declared = opened.stages(),
      .trains =
          std::find(modes.begin(), modes.end(), Mode::kTrain) != modes.end(),
      .usual_batch = usual.batch};
  if (!DivideStep(division, *out->compiled, out->model, request, out->stages,
                  findings)) {
    return nullptr;
  }
  return out;
}

MovedBytes MovedIn(const std::vector<verify::StepReport>& reports) {
  MovedBytes out;
  for (const verify::StepReport& report : reports) {
    out.recorded += report.sent_bytes;
    out.moved += report.moved_bytes;
    out.crossed += report.crossed_bytes;
  }
  return out;
}

int VerifySteps(const StepFlags& flags, const Common& common,
                const Ranks& ranks, Findings& findings) {
  bool found = false;
  const auto work = OpenStep(flags, common, ranks, found, findings);
  const bool dumps = !flags.dump.empty() && ranks.Leads();
  bool begins = work != nullptr;
  if (begins && dumps) begins = MakeFolder(flags.dump, findings);
  if (!ranks.All(begins, findings)) {
    if (found) return kFound;
    return findings.HasErrors() ? StageStatus(findings) : kFailed;
  }
  verify::StepRequest& request = work->settings.request;
  if (flags.full) {
    request.memory_bytes = ranks.Least(FreeMemory() / ranks.on_machine());
  }
  std::vector<verify::StepReport> reports;
  bool written = true;
  for (const Mode mode : work->settings.modes) {
    for (const Dtype dtype : work->settings.dtypes) {
      request.mode = mode;
      request.dtype = dtype;
      const bool staged = work->stages && mode == Mode::kTrain;
      request.stages = staged ? &*work->stages : nullptr;
      auto report = verify::VerifyStep(request, findings);
      if (!report) return kFailed;
      if (request.stages == nullptr) {
        report->memory =
            MemoryOfStep(request, work->settings.step_dtypes, work->model);
      }
      if (dumps && written) {
        written = WriteDump(flags.dump, reports.size(), *report, findings);
      }
      report->tensors.clear();
      reports.push_back(std::move(*report));
    }
  }
  if (!ranks.Leads()) return kDone;
  const auto write = [&](Sink& out) {
    if (common.format == "json") return WriteStepJson(reports, out);
    for (size_t i = 0; i < reports.size(); ++i) {
      out.Append((i > 0 ? "\n" : "") + StepText(reports[i]));
    }
  };
  if (!written || !PutOut(write, findings)) return kFailed;
  PrintUnevenHeads(*work->compiled, work->model, work->settings.modes, common);
  ReportMovedBytes(MovedIn(reports), ranks, common);
  const bool passed = std::all_of(
      reports.begin(), reports.end(), [](const verify::StepReport& report) {
        return report.status == verify::StepStatus::kPass;
      });
  return passed ? kDone : kFound;
}

// ---- traced programs

// Adds an error for each option that has no effect on a traced program.
bool RefuseOthers(const StepFlags& flags, Findings& findings) {
  const auto first = [](const Strings& all) {
    return all.empty() ? std::string() : all.front();
  };
  const std::pair<std::string_view, std::string> given[] = {
      {"--manifest", flags.inputs.asked.manifest},
      {"--model", flags.inputs.asked.model},
      {"--batch", flags.batch},
      {"--seq", flags.length},
      {"--operation", first(flags.operations)},
      {"--policy", flags.policy},
      {"--part", flags.part},
      {"--remat", flags.remat},
      {"--microbatches", flags.microbatches},
      {"--reduce", flags.reduce},
      {"--dtype", first(flags.dtypes)},
      {"--dump", flags.dump},
      {"--activation-dtype", flags.step_dtypes.activations},
      {"--grad-dtype", flags.step_dtypes.gradients},
      {"--zero", flags.step_dtypes.zero},
      {"--keep-gathered", flags.keep_gathered ? "true" : ""},
      {"--reduce-each", flags.reduce_each ? "true" : ""},
      {"--full", flags.full ? "true" : ""},
      {"--stages", flags.stages.Given() ? "true" : ""}};
  for (const auto& [flag, value] : given) {
    if (value.empty()) continue;
    findings.Add(code::kUsage, FlagPlace(flag, value),
                 "`" + std::string(flag) +
                     "` has no effect on a traced program, which has its own "
                     "sizes and ops",
                 "leave it out, or leave out `--program`");
  }
  if (flags.modes.size() > 1) {
    findings.Add(code::kUsage, {},
                 "a traced program is proved in one mode, and `--mode` names " +
                     std::to_string(flags.modes.size()),
                 "give the mode whose specs the plan should use");
  }
  return !findings.HasErrors();
}

std::optional<program::Program> ReadProgramFile(const std::string& path,
                                                Findings& findings) {
  const SourceRef source = ReadSource(path, findings);
  if (source == nullptr) return std::nullopt;
  return program::ReadProgram(source, findings);
}

// The mesh of a plan, the specs of parameters by name, and the axes of batches.
struct ProgramPlan {
  Mesh mesh;
  std::map<std::string, Spec, std::less<>> specs;
  AxisGroup batch;
  bool found = false;  // whether the plan has errors, which were added
};

std::optional<ProgramPlan> PlanOfFile(const StepFlags& flags, Mode mode,
                                      Findings& findings) {
  if (!RefuseInputs(flags.inputs, "the plan is that of `--plan`", findings)) {
    return std::nullopt;
  }
  const auto plan = ReadPlanFile(flags.plan, EditedPlan::kRefused, findings);
  if (!plan || !CheckMode(plan->modes, mode, findings) ||
      HasIllegalSpec(*plan, findings)) {
    return std::nullopt;
  }
  ProgramPlan out;
  out.mesh = plan->mesh;
  for (const ReadParam& param : plan->params) {
    out.specs[param.name] = param.SpecOf(mode);
  }
  out.batch = AxisRules().Value(AxisRule::kBatch).axes;
  return out;
}

std::optional<ProgramPlan> PlanOfRules(const StepFlags& flags,
                                       const program::Program& program,
                                       Mode mode, const Common& common,
                                       Findings& findings) {
  const auto target = ChooseTarget(flags.inputs.asked, findings);
  if (!target) return std::nullopt;
  if (target->rules.empty()) {
    findings.Add(
        code::kUsage, {}, "no rules are given",
        "write `--rules FILE`, or `--plan FILE` in place of a mesh and "
        "rules");
    return std::nullopt;
  }
  auto mesh = LoadMesh(flags.inputs, *target, findings);
  Manifest manifest = program::ManifestOf(program);
  auto rules =
      OpenRules(target->rules, target->project_dir, &manifest, "", findings,
                nullptr, RulesBoundary(*target, flags.inputs.asked));
  if (!mesh || !rules) return std::nullopt;
  ChoosePackAxes(*rules, nullptr, *mesh);
  CompileOptions options;
  options.modes = {Mode::kTrain};
  if (mode != Mode::kTrain) options.modes.push_back(mode);
  options.threads = std::max(common.threads, 1);
  const auto compiled = Compile(std::move(*mesh), std::move(*rules),
                                std::move(manifest), options, findings);
  if (compiled == nullptr) return std::nullopt;
  ProgramPlan out;
  Findings wrong = PlanFindings(*compiled);
  out.found = wrong.HasErrors();
  findings.Append(std::move(wrong));
  out.mesh = compiled->mesh;
  out.batch = compiled->rules.axes.Value(AxisRule::kBatch).axes;
  const Plan& plan = compiled->plan;
  for (size_t i = 0; i < plan.params.size(); ++i) {
    for (const ModeLayout& one : plan.layouts[plan.params[i].layout].modes) {
      if (one.mode == mode) out.specs[std::string(plan.names[i])] = one.spec;
    }
  }
  return out;
}

// Proves a traced program. Axes of which specs name factors become these
// factors.
int VerifyProgram(const StepFlags& flags, const Common& common,
                  Findings& findings) {
  if (!RefuseOthers(flags, findings)) return kFailed;
  const auto mode = flags.modes.empty()
                        ? Mode::kTrain
                        : ParseModeFlag(flags.modes[0], findings);
  const auto program = ReadProgramFile(flags.program, findings);
  std::optional<program::Program> reference;
  if (!flags.reference.empty()) {
    reference = ReadProgramFile(flags.reference, findings);
  }
  int64_t seed = 0;
  if (!flags.seed.empty()) {
    const auto given = ParseInteger("--seed", flags.seed, 0, findings);
    if (given) seed = *given;
  }
  if (!mode || !program || findings.HasErrors()) return kFailed;
  auto plan = flags.plan.empty()
                  ? PlanOfRules(flags, *program, *mode, common, findings)
                  : PlanOfFile(flags, *mode, findings);
  if (!plan) return kFailed;
  if (plan->found) return kFound;
  constexpr int64_t kMostDevices = 64;
  if (plan->mesh.devices > kMostDevices) {
    findings.Add(code::kLimit, {},
                 "the mesh has " + CountText(plan->mesh.devices) +
                     " devices, and a program is proved on " +
                     std::to_string(kMostDevices) + " at most",
                 "give a smaller mesh with the same axes");
    return kFailed;
  }
  ProofTexts texts{program->function, MeshText(plan->mesh), {}, {}};
  std::vector<Spec> specs;
  for (const program::Input& input : program->inputs) {
    texts.inputs.push_back(input.name);
    if (input.kind != program::InputKind::kParam) continue;
    const auto at = plan->specs.find(input.name);
    specs.push_back(at == plan->specs.end() ? Spec() : at->second);
    if (at == plan->specs.end()) {
      texts.notes.push_back(ShortQuote(input.name) +
                            " is replicated, since the plan lacks it");
    }
  }
  if (const auto refined = RefinedMesh(plan->mesh, specs)) {
    plan->mesh = *refined;
    for (Spec& spec : specs) spec = RefinedSpec(*refined, spec);
    plan->batch = RefinedGroup(*refined, plan->batch);
  }
  verify::ProgramRequest request{
      .program = &*program,
      .reference = reference ? &*reference : nullptr,
      .mesh = plan->mesh,
      .specs = verify::InputSpecs(*program, plan->mesh, specs, plan->batch,
                                  texts.notes),
      .seed = static_cast<uint64_t>(seed),
      .threads = std::max(common.threads, 1)};
  const auto proof = verify::ProveProgram(request, findings);
  if (!proof) return kFailed;
  const auto write = [&](Sink& out) {
    if (common.format == "json")
      return WriteProgramProofJson(texts, *proof, out);
    out.Append(ProgramProofText(texts, *proof));
  };
  if (!PutOut(write, findings)) return kFailed;
  return proof->failure ? kFound : kDone;
}

int RunVerifyStep(const StepFlags& flags, const Common& common,
                  Findings& findings) {
  if (!flags.program.empty()) return VerifyProgram(flags, common, findings);
  for (const auto& [flag, value] :
       {std::pair<std::string_view, const std::string&>{"--plan", flags.plan},
        {"--reference", flags.reference}}) {
    if (value.empty()) continue;
    findings.Add(code::kUsage, FlagPlace(flag, value),
                 "`" + std::string(flag) +
                     "` has an effect only with "
                     "`--program`",
                 "give the traced program of your function, or leave it out");
    return kFailed;
  }
  return RunOverRanks(
      [&](const Ranks& ranks) {
        return VerifySteps(flags, common, ranks, findings);
      },
      findings);
}

}  // namespace

Declared DeclareVerifyStep() { return Declare(OptionsOf, RunVerifyStep); }

}  // namespace shardc::cli
