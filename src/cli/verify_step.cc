// `shardc verify step`: compiles a target as `shardc plan` does, and lowers the
// model that the target's rules describe to one program per mode. Each program
// runs in each dtype, and a report of each run is printed. For example:
//
//   --mode train,decode --dtype float64,float32  ->  four reports
#include "cli/verify_step.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/commands.h"
#include "cli/cost_flags.h"
#include "cli/dumped_cases.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/pictured.h"
#include "cli/plan_findings.h"
#include "cli/planned.h"
#include "cli/program_plan.h"
#include "cli/progress.h"
#include "cli/ranks.h"
#include "cli/verify_request.h"
#include "cost/inputs.h"
#include "cost/pipeline.h"
#include "cost/settings.h"
#include "emit/verify/dump.h"
#include "emit/verify/step_json.h"
#include "emit/verify/verify_json.h"
#include "model/dtype.h"
#include "model/mesh_layout.h"
#include "model/option_value.h"
#include "plan/mesh_purposes.h"
#include "plan/planned_stages.h"
#include "plan/read.h"
#include "program/read.h"
#include "source/file.h"
#include "source/finding.h"
#include "source/list.h"
#include "source/other_words.h"
#include "source/process.h"
#include "source/sink.h"
#include "source/size.h"
#include "source/wording.h"
#include "verify/program/proof.h"
#include "verify/step/step_report.h"

namespace shardc::cli {
namespace {

// Reads the dtypes in which `verify step` runs a step: float64, float32,
// bfloat16 and float16. Parameters may be stored in other dtypes, such as
// float8, but a step is not computed in these, so they are an error.

// Reads `--dtype`. Without this option, the dtype is float64. Returns false
// after a finding.
bool ReadProofDtypes(const Strings& texts, std::vector<Dtype>& out,
                     Findings& findings) {
  for (const std::string& text : texts) {
    const auto dtype = ParseDtype(text);
    if (dtype != Dtype::kF64 && dtype != Dtype::kF32 && dtype != Dtype::kBF16 &&
        dtype != Dtype::kF16) {
      findings.Add(
          code::kUsage, {},
          ShortQuote(text) + " is none of: float64, float32, bfloat16, float16",
          HelpForOtherWord("dtype", text).empty()
              ? "a step is proved in these; its bytes are those of the "
                "parameters' dtype"
              : HelpForOtherWord("dtype", text));
      return false;
    }
    out.push_back(*dtype);
  }
  if (out.empty()) out = {Dtype::kF64};
  return true;
}

// Reads the flags of `verify step`:
//
//   --mode train --microbatches 4 --remat dots_saveable  ->  a request for one
//   training step of four micro-batches

struct StepFlags {
  InputFlags inputs;
  Strings modes, operations, dtypes;
  std::string batch, length, policy, part, microbatches, seed, dump;
  // A traced program to prove in place of the model that the rules describe, a
  // plan to prove it under, and a program whose results must be the same.
  std::string program, plan, reference;
  StepSettingFlags settings;
  bool keep_gathered = false, reduce_each = false, full = false;
  StageFlags stages;
};

struct StepSettings {
  std::vector<Mode> modes;
  std::vector<Dtype> dtypes;
  cost::Settings given;
  verify::StepRequest request;
};

// Returns false, and adds a finding, if a given flag has no effect in these
// modes.
bool SuitsModes(const StepFlags& flags, const std::vector<Mode>& modes,
                Findings& findings) {
  const bool reduces = flags.reduce_each || !flags.settings.reduce.empty();
  if (reduces && flags.microbatches.empty()) {
    findings.Add(
        code::kUsage, {},
        std::string(flags.reduce_each ? "`--reduce-each`" : "`--reduce`") +
            " has no effect without micro-batches",
        "give their number with `--microbatches`, or leave it out");
    return false;
  }
  if (flags.reduce_each && !flags.settings.reduce.empty() &&
      flags.settings.reduce != "each") {
    findings.Add(code::kUsage, FlagPlace("--reduce", flags.settings.reduce),
                 "`--reduce-each` and `--reduce` differ", "give one of them");
    return false;
  }
  if (IsAmong(Mode::kTrain, modes)) {
    return true;
  }
  const std::pair<std::string_view, bool> of_training[] = {
      {"--remat", !flags.settings.remat.empty()},
      {"--microbatches", !flags.microbatches.empty()},
      {"--zero", !flags.settings.zero.empty()},
      {"--grad-dtype", !flags.settings.gradients.empty()},
      {"--keep-gathered", flags.keep_gathered},
      {"--stages", flags.stages.Given()}};
  for (const auto& [name, given] : of_training) {
    if (!given) continue;
    findings.Add(code::kUsage, {},
                 "`" + std::string(name) +
                     "` has an effect only in a training step, and `--mode` "
                     "names none",
                 "leave it out, or give `--mode train`");
    return false;
  }
  return true;
}

// Returns the settings of the flags. Returns nullopt after findings, for
// example about a flag that has no effect in the given modes.
std::optional<StepSettings> ReadStepSettings(const StepFlags& flags,
                                             const Target& target,
                                             const Common& common,
                                             const Ranks& ranks,
                                             Findings& findings) {
  StepSettings out;
  auto modes = ParseModes(flags.modes.empty() ? Strings{"train"} : flags.modes,
                          findings);
  if (!modes || !SuitsModes(flags, *modes, findings) ||
      !ReadProofDtypes(flags.dtypes, out.dtypes, findings)) {
    return std::nullopt;
  }
  out.modes = std::move(*modes);
  verify::StepRequest& request = out.request;
  request.batch = target.batch.value_or(0);
  int64_t seed = 0;
  if (!ReadCountOption("--batch", flags.batch, request.batch, findings) ||
      !ReadCountOption("--seq", flags.length, request.length, findings)) {
    return std::nullopt;
  }
  if (!flags.seed.empty()) {
    const auto value = ParseInteger("--seed", flags.seed, 0, findings);
    if (!value) return std::nullopt;
    seed = *value;
  }
  if (flags.policy == "cost") request.policy = step::Policy::kCost;
  request.keep_gathered = flags.keep_gathered;
  if (flags.reduce_each) request.reduction = step::Reduction::kEach;
  const auto given = ReadSettingsOfStep(flags.settings, request, findings);
  if (!given) return std::nullopt;
  out.given = *given;
  if (!ReadCountOption("--microbatches", flags.microbatches,
                       request.microbatches, findings)) {
    return std::nullopt;
  }
  if (request.microbatches > kMostMicrobatches) {
    findings.Add(code::kUsage, {},
                 "`--microbatches` is " + CountText(request.microbatches) +
                     ", " + CountText(kMostMicrobatches) + " at most are run");
    return std::nullopt;
  }
  if (flags.operations.size() > 1) {
    findings.Add(
        code::kUsage, {},
        "a step has one attention operation, and `--operation` names " +
            std::to_string(flags.operations.size()),
        "name one with `--operation`");
    return std::nullopt;
  }
  if (!flags.operations.empty()) {
    request.operation = NamedOperation(flags.operations[0], {}, findings);
    if (request.operation == nullptr) return std::nullopt;
  }
  request.part = flags.part;
  request.full = flags.full;
  request.keep_tensors = !flags.dump.empty();
  request.seed = static_cast<uint64_t>(seed);
  request.threads = ranks.Threads(common.threads);
  request.transport = ranks.transport();
  return out;
}

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

bool HasDescription(const RuleSet& rules, const Manifest& manifest,
                    Findings& findings) {
  if (rules.model != nullptr) return true;
  const Place tree{manifest.source, Place::kEntireFile, Place::kEntireFile};
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
        .need = HelpNeed::kMost,
        .to = &flags.modes,
        .value = "MODE,...",
        .help = "the steps to run: train, prefill, decode (default: train)",
        .several = Several::kCommas,
        .words = Words({"train", "prefill", "decode"})},
       {.name = "--batch",
        .need = HelpNeed::kMost,
        .to = &flags.batch,
        .value = "N",
        .help = "rows of the batch, over all devices (default: two a device; "
                "with `stages:`, two a device of a stage in each "
                "micro-batch)"},
       {.name = "--seq",
        .need = HelpNeed::kMost,
        .to = &flags.length,
        .value = "N",
        .help = "tokens per row (default: 8192)"},
       {.name = "--operation",
        .need = HelpNeed::kOften,
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
        .need = HelpNeed::kOften,
        .to = &flags.part,
        .value = "PART",
        .help = "report one part, such as 'layer 0', model or optimizer; a "
                "layer is proved alone"},
       {.name = "--keep-gathered",
        .to = &flags.keep_gathered,
        .help = "in training, keep gathered parameters for the backward pass"},
       OptionOfSetting("--remat", &flags.settings.remat),
       {.name = "--microbatches",
        .to = &flags.microbatches,
        .value = "N",
        .help = "in training, split the batch into N parts and add their "
                "gradients (default: that of `stages:`, else 1)"},
       OptionOfSetting("--reduce", &flags.settings.reduce),
       {.name = "--reduce-each",
        .to = &flags.reduce_each,
        .help = "the same as `--reduce each`"},
       {.name = "--dtype",
        .need = HelpNeed::kOften,
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
        .need = HelpNeed::kOften,
        .to = &flags.full,
        .help = "prove the step at the sizes given; where memory "
                "holds them"},
       {.name = "--program",
        .need = HelpNeed::kMost,
        .to = &flags.program,
        .value = "FILE",
        .help = "traced program of your function; in place of the "
                "model that the rules describe"},
       {.name = "--plan",
        .need = HelpNeed::kOften,
        .to = &flags.plan,
        .value = "FILE",
        .help = "with `--program`: a plan, in place of a mesh and rules"},
       {.name = "--reference",
        .need = HelpNeed::kOften,
        .to = &flags.reference,
        .value = "FILE",
        .help = "traced program whose results must be equal; with "
                "`--program`: of the same inputs, such as the "
                "function without `shard_map`"},
       {.name = "--dump",
        .to = &flags.dump,
        .value = "DIR",
        .help = "write each step's tensors and settings to this folder"}});
  Append(options, StepSettingOptions(flags.settings));
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
  inputs.trains = settings && IsAmong(Mode::kTrain, settings->modes);
  const StagedTarget opened =
      CompileStaged(flags.stages, inputs, *target, common, findings);
  out->model = opened.model;
  out->compiled = opened.compiled;
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
      .trains = IsAmong(Mode::kTrain, modes),
      .usual_batch = usual.batch};
  if (!DivideStep(division, opened, request, out->stages, findings)) {
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
  if (begins && dumps) begins = BeginCases(flags.dump, findings);
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
      if (ranks.Leads()) {
        ShowStage(common, "proving a step of " + std::string(ModeName(mode)) +
                              " in " + std::string(DtypeName(dtype)));
      }
      auto report = verify::VerifyStep(request, findings);
      if (!report) return kFailed;
      if (request.stages == nullptr) {
        report->memory =
            MemoryOfStep(request, work->settings.given, work->model);
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
  if (dumps && written) written = EndCases(flags.dump, findings);
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

// Proves a traced program.
int VerifyProgram(const StepFlags& flags, const Common& common,
                  Findings& findings) {
  if (flags.modes.size() > 1) {
    findings.Add(code::kUsage, {},
                 "a traced program is proved in one mode, and `--mode` names " +
                     std::to_string(flags.modes.size()),
                 "give the mode whose specs the plan should use");
  }
  if (!RefuseOthers(OptionsOf, flags,
                    {"--mesh", "--devices", "--processes", "--rules",
                     "--project", "--no-project", "--target", "--mode",
                     "--seed", "--full", "--program", "--plan", "--reference"},
                    findings)) {
    return kFailed;
  }
  const auto mode = flags.modes.empty()
                        ? Mode::kTrain
                        : ParseModeFlag(flags.modes[0], findings);
  const auto program = ReadTracedProgram(flags.program, findings);
  std::optional<program::Program> reference;
  if (!flags.reference.empty()) {
    reference = ReadTracedProgram(flags.reference, findings);
  }
  int64_t seed = 0;
  if (!flags.seed.empty()) {
    const auto given = ParseInteger("--seed", flags.seed, 0, findings);
    if (given) seed = *given;
  }
  if (!mode || !program || findings.HasErrors()) return kFailed;
  // The results of a reference have the dimensions of the program as traced.
  const auto parts =
      reference ? PlannedParts::kContiguous : PlannedParts::kSplit;
  auto plan = PlanOfProgram(*program, flags.plan, flags.inputs, *mode, parts,
                            common, findings);
  if (!plan) return kFailed;
  if (plan->found) return kFound;
  if (plan->mesh.devices > kMostProvedDevices) {
    findings.Add(code::kLimit, {},
                 "the mesh has " + CountText(plan->mesh.devices) +
                     " devices, and a program is proved on " +
                     std::to_string(kMostProvedDevices) + " at most",
                 "give a smaller mesh with the same axes");
    return kFailed;
  }
  ProofTexts texts{program->function, MeshText(plan->mesh), {}, plan->notes};
  for (const program::Input& input : program->inputs) {
    texts.inputs.push_back(input.name);
  }
  verify::ProgramRequest request{.program = &plan->Of(*program),
                                 .reference = reference ? &*reference : nullptr,
                                 .mesh = plan->mesh,
                                 .specs = plan->specs,
                                 .seed = static_cast<uint64_t>(seed),
                                 .threads = std::max(common.threads, 1),
                                 .progress = CountedProgress(common, "ops")};
  if (flags.full) {
    request.sizes = verify::ProofSizes::kTraced;
    request.memory_bytes = FreeMemory();
  }
  auto proof = verify::ProveProgram(request, findings);
  if (!proof) return kFailed;
  // Users know the results without dimensions of parts.
  for (size_t i = 0; i < proof->results.size(); ++i) {
    proof->results[i].shape = program->ShapeOf(program->outputs[i]);
  }
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

// Divides a model into pipeline stages for `shardc verify step`, in the same
// way as `shardc cost`. The layers are recognised by the names of the
// parameters. For example, zbv is a schedule with two stages on each rank. A
// model of 32 layers on the mesh pp:4,tp:2 with `--stages pp --schedule zbv` is
// divided into:
//
//   4 ranks, each on a mesh tp:2; 8 stages of 4 layers; the schedule zbv

namespace {

bool CanStage(const StageDeclaration& declared, bool given,
              const verify::StepRequest& request, Findings& findings) {
  const Place& place = declared.axis_place;
  const std::string without =
      given ? "or `--stages`"
            : "or pass `--stages none`, which proves the step on one stage";
  const std::pair<std::string_view, bool> excluded[] = {
      {"--full", request.full}, {"--part", !request.part.empty()}};
  for (const auto& [name, wanted] : excluded) {
    if (!wanted) continue;
    findings.Add(code::kUsage, place,
                 "`" + std::string(name) +
                     "` has no meaning for the stages of a pipeline, which are "
                     "proved together at reduced sizes",
                 "leave out `" + std::string(name) + "`" +
                     (given ? " " : ", ") + without);
    return false;
  }
  if (request.transport == nullptr) return true;
  findings.Add(
      code::kUsage, place, "the stages of a pipeline are run by one process",
      given ? "start `shardc verify step --stages` without a launcher"
            : "start `shardc verify step` without a launcher, " + without);
  return false;
}

// Returns the stages for verification. If the number of layers of each stage is
// not given, the cost model chooses these numbers.
std::optional<verify::StageSettings> StagesToVerify(
    const PlannedStages& planned, const Compiled& compiled,
    const std::optional<ModelConfig>& model, const verify::StepRequest& request,
    bool exposed, Findings& findings) {
  cost::Settings settings;
  settings.batch = request.batch;
  settings.length = request.length;
  settings.remat = request.remat;
  settings.zero = request.zero;
  if (compiled.mesh.device) {
    settings.profile = FindDeviceProfile(compiled.mesh.device->profile);
  }
  const cost::CostInputs work =
      cost::MakeCostInputs(compiled, model, Mode::kTrain);
  const auto divided = cost::PipelineCostOf(compiled, work, settings, planned,
                                            exposed, findings);
  if (!divided) return std::nullopt;
  verify::StageSettings out;
  out.axis = planned.axis;
  out.mesh = StageMesh(compiled.step_mesh, planned.axis);
  out.all_mesh = compiled.mesh;
  out.table = divided->table;
  for (const cost::StageCost& stage : divided->stages) {
    out.layers.push_back(stage.LayersOf(divided->layers).count());
  }
  return out;
}

// Returns the default batch of a step in stages. A stage has fewer devices than
// the mesh, so each micro-batch has the usual batch divided by the number of
// ranks. If the usual batch is 16 sequences on pp:4, a micro-batch has 4
// sequences, and 8 micro-batches have 8 * 4 sequences.
int64_t StagedBatch(const Mesh& mesh, const std::string& axis, int64_t usual,
                    int64_t microbatches) {
  const int64_t rows =
      std::max<int64_t>(1, usual / std::max<int64_t>(1, mesh.SizeOf(axis)));
  const Size multiple = Size(rows) * microbatches;
  return multiple.Fits() ? multiple.value() : usual;
}

bool CheckMicrobatches(int64_t microbatches, Findings& findings) {
  if (microbatches <= kMostMicrobatches) return true;
  findings.Add(code::kUsage, {},
               "`microbatches` is " + CountText(microbatches) + ", " +
                   CountText(kMostMicrobatches) + " at most are run",
               "give fewer with `--microbatches`");
  return false;
}

bool CheckBatch(const verify::StepRequest& request, Findings& findings) {
  if (request.batch % request.microbatches == 0) return true;
  findings.Add(code::kUsage, {},
               "a batch of " + CountText(request.batch) +
                   " is no multiple of " + CountText(request.microbatches) +
                   " micro-batches",
               "`--batch` is that of the whole step");
  return false;
}

}  // namespace

bool DivideStep(const StepDivision& division, const StagedTarget& target,
                verify::StepRequest& request,
                std::optional<verify::StageSettings>& out, Findings& findings) {
  const auto& declared = target.declared;
  const bool given = division.flags.Given();
  const bool staged = declared && (division.trains || given);
  std::shared_ptr<const PlannedStages> planned;
  if (!CheckMicrobatches(request.microbatches, findings)) return false;
  if (staged) {
    if (!CanStage(*declared, given, request, findings)) return false;
    StageSizes sizes = {Mode::kTrain, division.usual_batch, request.length, {}};
    if (division.microbatches_given) sizes.microbatches = request.microbatches;
    planned = StagesOf(target, sizes, findings);
    if (planned == nullptr) return false;
    request.microbatches = planned->table.microbatches;
    if (!CheckMicrobatches(request.microbatches, findings)) return false;
  }
  if (request.batch == 0) {
    request.batch =
        staged && declared->IsInFile()
            ? StagedBatch(target.compiled->mesh, planned->axis,
                          division.usual_batch, request.microbatches)
            : division.usual_batch;
  }
  if (!CheckBatch(request, findings)) return false;
  if (!staged) return true;
  out = StagesToVerify(*planned, *target.compiled, target.model, request,
                       division.flags.Exposed(), findings);
  return out.has_value();
}

}  // namespace shardc::cli
