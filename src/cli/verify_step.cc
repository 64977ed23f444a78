// A target compiled as for a plan, its pack's description of the model, and one
// report a mode.
//
//   --step train,decode --dtype float64 --batch 16 --seq 4096
#include "cli/verify_step.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cli/cost_flags.h"
#include "cli/dump_files.h"
#include "cli/output.h"
#include "cli/plan_findings.h"
#include "emit/verify/step_dump.h"
#include "emit/verify/step_json.h"
#include "emit/verify/step_text.h"
#include "source/file_sink.h"
#include "source/wording.h"
#include "verify/step/self_test.h"
#include "verify/step/step_report.h"

namespace shardc::cli {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 32;
constexpr int64_t kMostMicrobatches = 64;

struct StepSettings {
  std::vector<Mode> modes;
  std::vector<Dtype> dtypes;
  verify::StepRequest request;
};

// What stays while a step is run.
struct StepWork {
  StepSettings settings;
  std::optional<ModelConfig> model;
  std::unique_ptr<const Compiled> compiled;
};

// As Linux estimates it, for a program that asks for more.
int64_t FreeMemory() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  int64_t kibibytes = 0;
  for (std::string unit; file >> key >> kibibytes >> unit;) {
    if (key == "MemAvailable:") return kibibytes * 1024;
  }
  return INT64_MAX;
}

bool WriteDump(const std::string& folder, size_t index,
               const verify::StepReport& report, Findings& findings) {
  FileSink file(CaseFile(folder, index, ".json"));
  WriteStepDumpJson(report, file);
  if (!file.Commit(findings)) return false;
  return report.tensors.empty() ||
         WriteWhole(CaseFile(folder, index, ".safetensors"),
                    StepDumpTensors(report), findings);
}

bool ReadDtypes(const VerifyFlags& flags, std::vector<Dtype>& out,
                Findings& findings) {
  for (const std::string& text : flags.dtypes) {
    const auto dtype = ParseDtype(text);
    if (dtype != Dtype::kF64 && dtype != Dtype::kF32 && dtype != Dtype::kBF16 &&
        dtype != Dtype::kF16) {
      findings.Add(
          code::kUsage, {},
          ShortQuote(text) + " is none of: float64, float32, bfloat16, float16",
          "a step is proved in these; its bytes are those of the "
          "parameters' dtype");
      return false;
    }
    out.push_back(*dtype);
  }
  if (out.empty()) out = {Dtype::kF64};
  return true;
}

bool ReadCount(std::string_view flag, const std::string& text, int64_t& to,
               Findings& findings) {
  if (text.empty()) return true;
  const auto value = ParseInteger(flag, text, 1, findings);
  if (!value) return false;
  if (*value > kMostTokens) {
    findings.Add(code::kUsage, {},
                 "`" + std::string(flag) + "` is " + CountText(*value) + ", " +
                     CountText(kMostTokens) + " at most are counted");
    return false;
  }
  to = *value;
  return true;
}

bool IsGiven(const Option& option) {
  if (const auto* flag = std::get_if<bool*>(&option.to)) return **flag;
  const auto* text = std::get_if<std::string*>(&option.to);
  return text != nullptr && !(*text)->empty();
}

// What a step does not do is asked for in vain, and said.
bool SuitsModes(const VerifyFlags& flags, const std::vector<Mode>& modes,
                Findings& findings) {
  if (flags.reduce_each && flags.microbatches.empty()) {
    findings.Add(code::kUsage, {}, "`--reduce-each` is of micro-batches",
                 "give their number by `--microbatches`");
    return false;
  }
  if (std::find(modes.begin(), modes.end(), Mode::kTrain) != modes.end()) {
    return true;
  }
  const std::pair<std::string_view, bool> of_training[] = {
      {"--remat", !flags.remat.empty()},
      {"--microbatches", !flags.microbatches.empty()},
      {"--keep-gathered", flags.keep_gathered}};
  for (const auto& [name, given] : of_training) {
    if (!given) continue;
    findings.Add(code::kUsage, {},
                 "`" + std::string(name) +
                     "` is of a training step, and `--step` asks for none",
                 "leave it out, or give `--step train`");
    return false;
  }
  return true;
}

std::optional<StepSettings> ReadSettings(const VerifyFlags& flags,
                                         const Target& target,
                                         const Common& common,
                                         const Ranks& ranks,
                                         Findings& findings) {
  StepSettings out;
  auto modes = ParseModes(flags.steps_of, findings);
  if (!modes || !SuitsModes(flags, *modes, findings) ||
      !ReadDtypes(flags, out.dtypes, findings)) {
    return std::nullopt;
  }
  out.modes = std::move(*modes);
  verify::StepRequest& request = out.request;
  request.batch = target.batch.value_or(0);
  int64_t seed = 0;
  if (!ReadCount("--batch", flags.batch, request.batch, findings) ||
      !ReadCount("--seq", flags.length, request.length, findings)) {
    return std::nullopt;
  }
  if (!flags.seed.empty()) {
    const auto value = ParseInteger("--seed", flags.seed, 0, findings);
    if (!value) return std::nullopt;
    seed = *value;
  }
  if (flags.policy == "cost") request.policy = step::Policy::kCost;
  if (flags.policy == "published") request.policy = step::Policy::kPublished;
  request.keep_gathered = flags.keep_gathered;
  if (flags.reduce_each) request.reduction = step::Reduction::kEach;
  if (!ReadRemat(flags.remat, request.remat, findings) ||
      !ReadCount("--microbatches", flags.microbatches, request.microbatches,
                 findings)) {
    return std::nullopt;
  }
  if (request.microbatches > kMostMicrobatches) {
    findings.Add(code::kUsage, {},
                 "`--microbatches` is " + CountText(request.microbatches) +
                     ", " + CountText(kMostMicrobatches) + " at most are run");
    return std::nullopt;
  }
  if (flags.operations.size() > 1) {
    findings.Add(code::kUsage, {}, "a step has one attention operation",
                 "name one with --operation");
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

bool CanDescribe(const Compiled& compiled, Findings& findings) {
  Findings wrong = PlanFindings(compiled);
  const bool errors = wrong.HasErrors();
  findings.Append(std::move(wrong));
  return !errors && HasDescription(compiled, findings);
}

}  // namespace

bool HasDescription(const Compiled& compiled, Findings& findings) {
  if (compiled.rules.model != nullptr) return true;
  findings.Add(code::kUsage, {}, "none of the rules files describes the model",
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

Options OptionsOfStep(VerifyFlags& flags) {
  return {{.name = "--step",
           .to = &flags.steps_of,
           .value = "MODE,...",
           .help = "run the whole step of the model, not attention alone: "
                   "train, prefill, decode",
           .several = Several::kCommas,
           .words = {"train", "prefill", "decode"}},
          {.name = "--batch",
           .to = &flags.batch,
           .value = "N",
           .help = "of a step: rows, over all devices (default: two a device)"},
          {.name = "--seq",
           .to = &flags.length,
           .value = "N",
           .help = "of a step: tokens of a row (default 4096)"},
          {.name = "--policy",
           .to = &flags.policy,
           .value = "published|cost",
           .help = "of a step: what moves where an axis could serve several "
                   "dimensions (default: published; in decode cost)",
           .checked = true},
          {.name = "--part",
           .to = &flags.part,
           .value = "PART",
           .help = "of a step: report one part, such as 'layer 0', model or "
                   "optimizer; a layer is proved alone"},
          {.name = "--keep-gathered",
           .to = &flags.keep_gathered,
           .help = "of a step: backward uses the copies that forward "
                   "gathered"},
          RematOption(&flags.remat),
          {.name = "--microbatches",
           .to = &flags.microbatches,
           .value = "N",
           .help = "of a training step: parts of the batch, whose gradients "
                   "are added (default: 1)"},
          {.name = "--reduce-each",
           .to = &flags.reduce_each,
           .help = "of micro-batches: each reduces its gradients, not the "
                   "last those of all"}};
}

bool SuitsNoStep(const VerifyFlags& flags, Findings& findings) {
  VerifyFlags read = flags;  // options are where flags are written to
  for (const Option& option : OptionsOfStep(read)) {
    if (!IsGiven(option)) continue;
    findings.Add(code::kUsage, {},
                 "`" + option.name + "` is of a step, and there is no `--step`",
                 "give `--step train`, or leave it out");
    return false;
  }
  return true;
}

int RunStepSelfTestCommand(const Common& common, const FaultProgress& tell,
                           Findings& findings) {
  const verify::StepSelfTest result = verify::RunStepSelfTest(
      verify::StepFaults(), ThreadsOr(common.threads), tell);
  const auto write = [&](Sink& out) {
    if (common.format == "json") return WriteStepSelfTestJson(result, out);
    out.Append(StepSelfTestText(result));
  };
  if (!PutOut(write, findings)) return kFailed;
  return result.Holds() ? kDone : kFound;
}

namespace {

std::unique_ptr<StepWork> MakeStepWork(const VerifyFlags& flags,
                                       const Common& common, const Ranks& ranks,
                                       Findings& findings) {
  const auto target = ChooseTarget(flags.inputs.asked, findings);
  if (!target) return nullptr;
  auto settings = ReadSettings(flags, *target, common, ranks, findings);
  auto out = std::make_unique<StepWork>();
  out->compiled =
      LoadAndCompile(flags.inputs, *target, common, findings, &out->model);
  if (!settings || out->compiled == nullptr) return nullptr;
  if (!CanDescribe(*out->compiled, findings)) return nullptr;
  out->settings = std::move(*settings);
  verify::StepRequest& request = out->settings.request;
  const verify::StepRequest usual =
      UsualStep(*out->compiled, out->model, std::nullopt);
  request.compiled = usual.compiled;
  request.config = usual.config;
  request.element_bytes = usual.element_bytes;
  if (request.batch == 0) request.batch = usual.batch;
  if (request.length == 0) request.length = usual.length;
  if (request.batch % request.microbatches != 0) {
    findings.Add(code::kUsage, {},
                 "a batch of " + CountText(request.batch) +
                     " is no multiple of " + CountText(request.microbatches) +
                     " micro-batches",
                 "`--batch` is that of the whole step");
    return nullptr;
  }
  return out;
}

// What went from device to device, of all steps.
void TellMoved(const std::vector<verify::StepReport>& reports,
               const Ranks& ranks, const Common& common) {
  if (ranks.count() == 1) return;
  int64_t recorded = 0, moved = 0, crossed = 0;
  for (const verify::StepReport& report : reports) {
    recorded += report.sent_bytes;
    moved += report.moved_bytes;
    crossed += report.crossed_bytes;
  }
  Tell(common, ranks.MovedText(recorded, moved, crossed));
}

}  // namespace

int RunVerifyStep(const VerifyFlags& flags, const Common& common,
                  const Ranks& ranks, Findings& findings) {
  const auto work = MakeStepWork(flags, common, ranks, findings);
  const bool dumps = !flags.dump.empty() && ranks.Leads();
  bool begins = work != nullptr;
  if (begins && dumps) begins = MakeFolder(flags.dump, findings);
  if (!ranks.All(begins, findings)) return kFailed;
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
      auto report = verify::VerifyStep(request, findings);
      if (!report) return kFailed;
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
  TellMoved(reports, ranks, common);
  const bool passed = std::all_of(
      reports.begin(), reports.end(), [](const verify::StepReport& report) {
        return report.status == verify::StepStatus::kPass;
      });
  return passed ? kDone : kFound;
}

}  // namespace shardc::cli
