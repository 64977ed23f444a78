// `shardc verify step`: compiles a target as `shardc plan` does, and lowers the
// model that the target's rules describe to one program per mode. Each program
// runs in each dtype, and a report of each run is printed. For example:
//
//   --mode train,decode --dtype float64,float32  ->  four reports
#include "cli/verify_step.h"

#include <algorithm>
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
#include "emit/verify/step_dump.h"
#include "emit/verify/step_json.h"
#include "emit/verify/step_text.h"
#include "source/file_sink.h"
#include "source/memory.h"
#include "source/wording.h"
#include "verify/step/step_report.h"

namespace shardc::cli {
namespace {

// The inputs of a run. The steps of the run have pointers to these members.
struct StepInputFiles {
  StepSettings settings;
  std::optional<ModelConfig> model;
  std::unique_ptr<const Compiled> compiled;
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
  Append(
      options,
      {{.name = "--model",
        .to = &flags.inputs.asked.model,
        .value = "FILE",
        .help = "the model's config.json, for its sizes"},
       {.name = "--mode",
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
                "dimensions (default: published; in decode cost)",
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
  StagedTarget opened =
      CompileStaged(flags.stages, flags.inputs, *target, common, findings);
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

int RunVerifyStep(const StepFlags& flags, const Common& common,
                  Findings& findings) {
  return RunOverRanks(
      [&](const Ranks& ranks) {
        return VerifySteps(flags, common, ranks, findings);
      },
      findings);
}

}  // namespace

const Command kVerifyStep = {
    .name = "verify step",
    .summary = "run a whole step of the model on a simulated mesh",
    .about = R"(
Runs a whole step of the model on a simulated mesh, from the embedding to the
optimizer, as the `model:` section of the rules describes it, and compares every
value with the dense model's. The step is lowered to ops on shards and the
collectives that the plan's specs and the logical axes of the mode require. The
report lists the collectives with the bytes that the busiest device sends at
real sizes (`--batch`, `--seq`), one line for layers that send the same, and the
ops in which one axis could serve several dimensions, where a compiler may
choose differently.

With `--policy published` parameters are resharded over the axes of batch,
sequence and fully sharded data, and activations over the other axes. Where that
does not decide, and with `--policy cost`, the operand is resharded that sends
the fewest bytes; ties go to fewer collectives, then to less work a device, then
to the first in the order of the mesh's axes and the op's dimensions.

The same program then runs at reduced sizes: every value, gradient, updated
parameter and cache must equal the dense model's, to 1e-12 in float64, and in
narrower dtypes to four times the error of one device up to that op plus 18
roundings of float32 (in 16 bits experts are chosen as the reference chooses
them). Replicas must agree in bits, gradients must have the sharding of their
parameters, each partial value must be reduced once, and the bytes sent must
equal closed formulas. `--full` runs the proof at the sizes given on the whole
mesh, of up to 64 devices, and exits with 2 where memory does not hold it.

With `--operation` the named attention operation runs forward and backward: it
reshards queries and keys to the layout it needs, exchanges lengths for heads,
or passes keys round a ring, and does the same with their gradients. A step is
unsupported if the operation cannot run with the plan's specs; paged operations
have no step. `--part 'layer 3'` (or `encoder 3`, `model`, `optimizer`) limits
lines, sharding conflicts and totals to that part; a layer is then proved alone,
between the model's first and last ops. `--dump` writes every input, and every
value that was compared with its reference, numbered in the order of the ops,
with settings that name each number.

With `--remat` the backward phase of a training step recomputes what a layer
does not keep, and proves it like the rest. With `--microbatches` the batch is
split into parts that run one after the other, each forward and backward; losses
are divided by the tokens of all parts, and gradients are added. Over the axes
that shard a gradient each part is reduced, over others the sum of all parts;
`--reduce once` and `--reduce each` reduce over all axes once, or in each part.
With `--zero` replicas shard optimizer states, gradients and parameters beyond
the plan.

Bytes are those of `--activation-dtype`, of the parameters' own dtypes, of
`--grad-dtype` and of `--kv-dtype`; parameters in integers or 8-bit floats have
no gradients. The memory of the fullest device is that of `shardc cost`, and the
most that it would hold if no op were fused follows.

With `--stages AXIS`, or a `stages:` section of the rules or of the target, the
layers are divided into the stages of a pipeline over an axis of the mesh, as
`shardc cost` divides them. The order of the schedule's table, its sends and
receives, and the micro-batches that ranks hold are proved at the real size. A
step then runs on the ranks of a smaller table of
the same schedule, each with its own memory: losses, gradients in the order in
which ranks add them, the global norm and all updates must equal the dense
step's.

With a build that has MPI, `mpirun -n N shardc verify step` (or `srun`) spreads
the devices over N processes; see `shardc verify`.

Exits with 1 when a step fails or is unsupported.)",
    .example =
        "shardc verify step --mode train --mesh dp:2,fsdp:2,tp:2 --rules auto "
        "\\\n    --manifest model.safetensors.index.json --model config.json",
    .formats = "text|json",
    .declare = [] { return Declare(OptionsOf, RunVerifyStep); },
};

}  // namespace shardc::cli
