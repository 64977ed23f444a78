// Parses the options of `cost`. Parsing goes on after an invalid option, so
// that one run reports the errors of all options:
//
//   --zero 4 --seq many  ->  two findings
#include "cli/cost_flags.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cli/inputs.h"
#include "cli/output.h"
#include "cost/rates.h"
#include "devices/profiles.h"
#include "source/file.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

// The names of step::Reduction's values, in the same order.
constexpr std::array<std::string_view, 3> kReductions = {"sharded", "once",
                                                         "each"};

constexpr double kLeastCapacity = 0.1, kMostCapacity = 64;

std::string ListOf(std::span<const std::string_view> names) {
  return Join(names, ", ");
}

void Wrong(std::string_view flag, const std::string& value,
           std::span<const std::string_view> known, Findings& findings) {
  findings.Add(code::kUsage, FlagPlace(flag, value),
               ShortQuote(value) + " is none of: " + ListOf(known),
               DidYouMean(value, known));
}

class CostFlagParser {
 public:
  explicit CostFlagParser(Findings& findings) : findings_(findings) {}

  void Count(std::string_view flag, const std::string& text,
             std::optional<int64_t>& to) {
    if (text.empty()) return;
    const auto value = ParseInteger(flag, text, 1, findings_);
    if (value && *value > kMostCount) {
      findings_.Add(code::kNumber, FlagPlace(flag, text),
                    "`" + std::string(flag) + "` is more than 2^40");
    } else {
      to = value;
    }
  }

  void Type(std::string_view flag, const std::string& text,
            std::optional<Dtype>& to) {
    if (text.empty()) return;
    to = ParseDtype(text);
    if (!to || DtypeBits(*to) < 8) {
      findings_.Add(code::kUsage, FlagPlace(flag, text),
                    ShortQuote(text) +
                        " is not a dtype of at least one byte per element, "
                        "such as bfloat16",
                    DtypeHelp(text));
    }
  }

  // Reads one of the names of an enumeration, in the order of its values.
  template <typename To>
  void Choice(std::string_view flag, const std::string& text,
              std::span<const std::string_view> names, To& to) {
    if (text.empty()) return;
    const auto found = std::find(names.begin(), names.end(), text);
    if (found == names.end()) return Wrong(flag, text, names, findings_);
    to = static_cast<typename std::decay_t<decltype(Value(to))>>(found -
                                                                 names.begin());
  }

 private:
  template <typename Of>
  static Of Value(const Of& of) {
    return of;
  }
  template <typename Of>
  static Of Value(const std::optional<Of>& of) {
    return of.value_or(Of{});
  }

  static constexpr int64_t kMostCount = int64_t{1} << 40;
  Findings& findings_;
};

void ReadOptimizer(const CostFlags& flags, cost::Settings& out,
                   Findings& findings) {
  CostFlagParser reader(findings);
  if (!flags.optimizer.empty()) {
    const auto* const found =
        std::find(std::begin(cost::kOptimizerNames),
                  std::end(cost::kOptimizerNames), flags.optimizer);
    if (found == std::end(cost::kOptimizerNames)) {
      Wrong("--optimizer", flags.optimizer, cost::kOptimizerNames, findings);
    } else {
      out.optimizer = static_cast<cost::Optimizer>(
          found - std::begin(cost::kOptimizerNames));
    }
  }
  if (!flags.master_dtype.empty()) {
    out.master_given = true;
    if (flags.master_dtype != "none") {
      reader.Type("--master-dtype", flags.master_dtype, out.master);
    }
  }
  const size_t comma =
      std::min(flags.moments_dtype.find(','), flags.moments_dtype.size());
  reader.Type("--moments-dtype", flags.moments_dtype.substr(0, comma),
              out.first_moment);
  out.second_moment = out.first_moment;
  if (comma < flags.moments_dtype.size()) {
    reader.Type("--moments-dtype", flags.moments_dtype.substr(comma + 1),
                out.second_moment);
  }
  reader.Type("--grad-dtype", flags.grad_dtype, out.gradients);
  if (!flags.zero.empty()) {
    const auto stage = ParseInteger("--zero", flags.zero, 0, findings);
    if (stage && *stage > 3) {
      findings.Add(code::kUsage, FlagPlace("--zero", flags.zero),
                   "ZeRO has the stages 0 to 3");
    }
    out.zero = static_cast<int>(std::min<int64_t>(stage.value_or(0), 3));
  }
}

// Refuses the dtype of scales as that of the operands of matmuls.
void RefuseScales(std::string_view flag, const std::string& text,
                  const std::optional<Dtype>& dtype, Findings& findings) {
  if (dtype != Dtype::kF8E8M0) return;
  findings.Add(code::kUsage, FlagPlace(flag, text),
               ShortQuote(text) +
                   " is the dtype of the scales of blocks, and no matmul has "
                   "operands of it",
               "write `--matmul-dtype mxfp8` for 8-bit matmuls with a scale "
               "for each 32 numbers, or float8_e4m3fn");
}

void ReadActivations(const CostFlags& flags, cost::Settings& out,
                     Findings& findings) {
  CostFlagParser reader(findings);
  std::optional<Dtype> activations, cache, logits;
  reader.Type("--dtype", flags.dtype, activations);
  RefuseScales("--dtype", flags.dtype, activations, findings);
  reader.Type("--kv-dtype", flags.kv_dtype, cache);
  reader.Type("--logits-dtype", flags.logits_dtype, logits);
  out.activations = activations.value_or(out.activations);
  out.cache = cache.value_or(out.cache);
  out.logits = logits.value_or(out.logits);
  ReadRemat(flags.remat, out.remat, findings);
  reader.Count("--loss-chunk", flags.loss_chunk, out.loss_chunk);
  if (flags.loss.empty()) return;
  if (const auto kind = LossNamed(flags.loss)) {
    out.loss = *kind;
  } else {
    Wrong("--loss", flags.loss, kLossNames, findings);
  }
}

void ReadOperation(const CostFlags& flags, const Target& target, Mode mode,
                   cost::Settings& out, Findings& findings) {
  std::string name = flags.operation;
  for (const VerifyInput::Named& one : target.verify.operations) {
    if (name.empty() && (!one.mode || *one.mode == mode)) name = one.operation;
  }
  if (name.empty()) return;
  out.operation = exec::FindOperation(name);
  if (out.operation != nullptr) return;
  std::vector<std::string_view> known;
  for (const exec::Operation* operation : exec::Operations()) {
    known.push_back(operation->name);
  }
  Wrong("--operation", name, known, findings);
}

// Reads `--matmul-dtype`: a dtype, or numbers of 8 or 4 bits with a scale for
// each of many blocks.
void ReadProducts(const std::string& text, cost::Settings& out,
                  Findings& findings) {
  for (const auto scaling :
       {cost::Scaling::kMx, cost::Scaling::kBlocks, cost::Scaling::kNv}) {
    if (text != cost::kScalingNames[static_cast<size_t>(scaling)]) continue;
    out.matmuls = scaling == cost::Scaling::kNv ? Dtype::kF4 : Dtype::kF8E4M3;
    out.scaling = scaling;
    return;
  }
  CostFlagParser(findings).Type("--matmul-dtype", text, out.matmuls);
  if (out.matmuls == Dtype::kF4) {
    findings.Add(code::kUsage, FlagPlace("--matmul-dtype", text),
                 ShortQuote(text) +
                     " has no scales, and no device multiplies "
                     "such numbers without them",
                 "write `nvfp4` for 4-bit matmuls with a scale for each 16 "
                 "numbers");
  }
  RefuseScales("--matmul-dtype", text, out.matmuls, findings);
}

// Reads the options of models with experts.
void ReadExperts(const CostFlags& flags, cost::Settings& out,
                 Findings& findings) {
  CostFlagParser reader(findings);
  reader.Choice("--dispatcher", flags.dispatcher, cost::kDispatcherNames,
                out.dispatcher);
  reader.Choice("--graphs", flags.graphs, cost::kGraphsNames, out.graphs);
  reader.Choice("--routing", flags.routing, cost::kRoutingNames, out.routing);
  out.overlap_experts = flags.overlap_experts;
  const std::string& text = flags.capacity_factor;
  if (text.empty()) return;
  double factor = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, factor);
  if (error != std::errc() || stop != end || !(factor >= kLeastCapacity) ||
      factor > kMostCapacity) {
    findings.Add(code::kUsage, FlagPlace("--capacity-factor", text),
                 ShortQuote(text) + " is no number from 0.1 to 64",
                 "1.25 lets an expert compute a quarter more than its equal "
                 "part of the rows");
    return;
  }
  out.capacity_factor = factor;
}

// Returns the option `--stack NAME`. Shells complete the known names of
// software stacks.
Option StackOption(std::string* to) {
  Option option = {.name = "--stack",
                   .to = to,
                   .value = "NAME",
                   .help =
                       "training software: compiled, megatron, "
                       "megatron-2026-02, megatron-2026-06, xla, eager, "
                       "eager-bf16, hf, megatron-2021 or deepspeed-2021 "
                       "(default: xla for TPUs, "
                       "Trainium and parameters of JAX, else compiled)",
                   .words = {}};
  for (std::string_view name : cost::StackNames()) {
    option.words.emplace_back(name);
  }
  return option;
}

}  // namespace

Options OptionsOfCost(CostFlags& flags) {
  Options options = {
      ModeOption(&flags.mode),
      {.name = "--batch",
       .to = &flags.batch,
       .value = "N",
       .help = "rows per step over all devices (default: the target's)"},
      {.name = "--seq",
       .to = &flags.length,
       .value = "N",
       .help = "tokens per row, in training and prefill"},
      {.name = "--kv-len",
       .to = &flags.kv_length,
       .value = "N",
       .help = "tokens that the cache can hold (default: the target's)"},
      {.name = "--microbatches",
       .to = &flags.microbatches,
       .value = "N",
       .help = "number of micro-batches per step (default: that of `stages:`, "
               "else 1)"},
      ReduceOption(&flags.reduce),
      {.name = "--optimizer",
       .to = &flags.optimizer,
       .value = "adamw|adafactor|lion|momentum|muon|sgd",
       .help = "optimizer, for the bytes of its states (default: adamw)"},
      {.name = "--master-dtype",
       .to = &flags.master_dtype,
       .value = "DTYPE|none",
       .help = "dtype of the optimizer's copy of the parameters (default: "
               "float32 for narrower parameters)"},
      {.name = "--moments-dtype",
       .to = &flags.moments_dtype,
       .value = "DTYPE[,DTYPE]",
       .help = "dtypes of the first and the second moments (default: float32)"},
      {.name = "--grad-dtype",
       .to = &flags.grad_dtype,
       .value = "DTYPE",
       .help = "dtype of gradients (default: that of their parameters)"},
      {.name = "--offload-optimizer",
       .to = &flags.offloads_optimizer,
       .help = "the optimizer's states are in the memory of the host, which "
               "updates the parameters"},
      {.name = "--zero",
       .to = &flags.zero,
       .value = "0|1|2|3",
       .help = "ZeRO stage, which shards over replicas: 1 the optimizer's "
               "states, 2 gradients too, 3 parameters too (default: 0)"},
      RematOption(&flags.remat),
      {.name = "--dtype",
       .to = &flags.dtype,
       .value = "DTYPE",
       .help = "dtype of activations (default: bfloat16)"},
      {.name = "--logits-dtype",
       .to = &flags.logits_dtype,
       .value = "DTYPE",
       .help = "dtype of the logits (default: float32)"},
      {.name = "--kv-dtype",
       .to = &flags.kv_dtype,
       .value = "DTYPE",
       .help = "dtype of the KV cache; int8 has a float32 scale per token and "
               "head (default: bfloat16)"},
      {.name = "--operation",
       .to = &flags.operation,
       .value = "NAME",
       .help = "operation that computes attention (default: the target's, else "
               "flash_attn2, and flash_decoding in decode)"},
      ProfileOption(&flags.profile),
      StackOption(&flags.stack),
      {.name = "--loss",
       .to = &flags.loss,
       .value = "eager|compiled|fused",
       .help = "how the loss is computed, for the copies of the logits that it "
               "holds: eager 4, compiled 1.5, fused none (default: as "
               "the software computes it)"},
      {.name = "--loss-chunk",
       .to = &flags.loss_chunk,
       .value = "N",
       .help = "tokens of a device whose logits are computed at once (default: "
               "all of a micro-batch)"},
      {.name = "--overlap-tp",
       .to = &flags.overlap_tensor,
       .help = "tensor-parallel collectives overlap with matmuls, as "
               "with async TP"},
      {.name = "--matmul-dtype",
       .to = &flags.matmul_dtype,
       .value = "DTYPE",
       .help = "dtype of the matmuls of layers, such as float8_e4m3fn; "
               "mxfp8, fp8_blocks and nvfp4 have a scale for each of many "
               "blocks "
               "(default: that of activations)"},
      {.name = "--dispatcher",
       .to = &flags.dispatcher,
       .value = "alltoall|deepep|hybridep",
       .help = "what sends tokens to their experts: alltoall sends a copy for "
               "each expert, deepep and hybridep one to each device and host "
               "(default: alltoall)",
       .words = {std::begin(cost::kDispatcherNames),
                 std::end(cost::kDispatcherNames)}},
      {.name = "--ep-overlap",
       .to = &flags.overlap_experts,
       .help = "tokens are sent to experts while another micro-batch is "
               "computed"},
      {.name = "--graphs",
       .to = &flags.graphs,
       .value = "none|partial|step",
       .help = "CUDA graphs: none, those of attention and of the router, or "
               "those of the whole step (default: none; XLA: step)",
       .words = {std::begin(cost::kGraphsNames), std::end(cost::kGraphsNames)}},
      {.name = "--routing",
       .to = &flags.routing,
       .value = "balanced|natural",
       .help = "whether all experts get equally many tokens, as benchmarks "
               "force it, or as many as a router sends (default: balanced)",
       .words = {std::begin(cost::kRoutingNames),
                 std::end(cost::kRoutingNames)}},
      {.name = "--capacity-factor",
       .to = &flags.capacity_factor,
       .value = "X",
       .help = "rows that an expert computes at most, as a multiple of its "
               "equal part; further rows are dropped (default: none are)"},
      {.name = "--memory",
       .to = &flags.memory,
       .value = "SIZE",
       .help = "memory of a device, such as 80GiB"}};
  Append(options, AllInputs(flags.inputs));
  return options;
}

CostFlags WithStepOptions(CostFlags flags, const Target& target, Mode mode) {
  for (const Option& option : OptionsOfCost(flags)) {
    auto* const* text = std::get_if<std::string*>(&option.to);
    if (text == nullptr || !(*text)->empty()) continue;
    const bool applies = option.name == std::string_view("--seq")
                             ? !IsGeneration(mode)
                             : mode == Mode::kTrain;
    for (const StepOption& one : target.step_options) {
      if (applies && one.name == option.name) **text = one.value;
    }
  }
  return flags;
}

namespace {

std::optional<cost::Settings> ParseSettings(const CostFlags& flags,
                                            const Target& target, Mode mode,
                                            Findings& findings) {
  const size_t before = findings.errors();
  cost::Settings out;
  out.batch = target.batch;
  out.kv_length = target.kv_len;
  out.memory = target.memory_bytes;
  CostFlagParser reader(findings);
  std::optional<int64_t> microbatches;
  reader.Count("--batch", flags.batch, out.batch);
  reader.Count("--seq", flags.length, out.length);
  reader.Count("--kv-len", flags.kv_length, out.kv_length);
  reader.Count("--microbatches", flags.microbatches, microbatches);
  // Prefill and decode do not divide their batch into micro-batches.
  out.microbatches = mode == Mode::kTrain ? microbatches.value_or(1) : 1;
  ReadReduction(flags.reduce, out.reduction, findings);
  ReadOptimizer(flags, out, findings);
  ReadActivations(flags, out, findings);
  ReadOperation(flags, target, mode, out, findings);
  if (!flags.memory.empty()) {
    out.memory = ParseBytes("--memory", flags.memory, findings);
  }
  out.read_profile = ReadProfile(flags.profile, findings);
  out.profile = out.read_profile.get();
  out.overlap_tensor = flags.overlap_tensor;
  ReadProducts(flags.matmul_dtype, out, findings);
  if (cost::LacksFp4(out)) {
    findings.Add(code::kUsage, FlagPlace("--matmul-dtype", flags.matmul_dtype),
                 "the profile has no rate of matmuls in 4 bits",
                 "write `peaks: {fp4: ...}` in a profile of your own, with "
                 "`base:`, or choose gb200 or gb300");
  }
  out.offloads_optimizer = flags.offloads_optimizer;
  if (cost::LacksHostMemory(out)) {
    findings.Add(code::kUsage, FlagPlace("--profile", flags.profile),
                 "the profile has no rate of the memory of the host, where "
                 "`--offload-optimizer` holds the optimizer's states",
                 "write `links: {host: {bandwidth: ...}}` in a profile of your "
                 "own, with `base:`, or choose h100-sxm or h200-sxm");
  }
  ReadExperts(flags, out, findings);
  if (!flags.stack.empty()) {
    out.stack = cost::FindStack(flags.stack);
    if (out.stack == nullptr) {
      Wrong("--stack", flags.stack, cost::StackNames(), findings);
    }
  }
  if (findings.errors() > before) return std::nullopt;
  return out;
}

}  // namespace

std::optional<cost::Settings> CostSettings(const CostFlags& flags,
                                           const Target& target, Mode mode,
                                           Findings& findings) {
  Findings own;
  auto out =
      ParseSettings(WithStepOptions(flags, target, mode), target, mode, own);
  findings.NoteReadsOf(own);
  for (Finding finding : own.all()) {
    // The place of a finding about an option is in a source that has the
    // option's name. If the target gives the option, the finding is placed at
    // the value in the project file.
    const SourceRef& source = finding.place.source;
    for (const StepOption& one : target.step_options) {
      if (source != nullptr && source->name() == one.name &&
          source->text() == one.value) {
        finding.place = one.place;
        break;
      }
    }
    findings.Add(std::move(finding));
  }
  return out;
}

Option ProfileOption(std::string* to) {
  Option option = {
      .name = "--profile",
      .to = to,
      .value = "NAME|FILE",
      .help =
          "accelerator, such as h100-sxm, or a file that describes one "
          "(default: the mesh's)",
      .words = {}};
  for (std::string_view name : DeviceNames()) option.words.emplace_back(name);
  return option;
}

std::shared_ptr<const DeviceProfile> ReadProfile(const std::string& name,
                                                 Findings& findings) {
  if (name.empty()) return nullptr;
  if (const DeviceProfile* known = FindDeviceProfile(name)) {
    return {std::shared_ptr<const void>(), known};
  }
  if (name.find_first_of("./") == std::string::npos) {
    Wrong("--profile", name, DeviceNames(), findings);
    return nullptr;
  }
  SourceRef source = ReadSource(name, findings);
  if (source == nullptr) return nullptr;
  auto own = ParseProfile(std::move(source), findings);
  if (own == nullptr) return nullptr;
  return {own, &own->profile};
}

Option ReduceOption(std::string* to) {
  return {.name = "--reduce",
          .to = to,
          .value = "sharded|once|each",
          .help =
              "when gradients of micro-batches are reduced: over axes that "
              "shard them in each and over others once, all once, or all in "
              "each (default: sharded)",
          .words = {kReductions.begin(), kReductions.end()}};
}

bool ReadReduction(const std::string& text, step::Reduction& out,
                   Findings& findings) {
  if (text.empty()) return true;
  const auto* const found =
      std::find(kReductions.begin(), kReductions.end(), text);
  if (found == kReductions.end()) {
    Wrong("--reduce", text, kReductions, findings);
    return false;
  }
  out = static_cast<step::Reduction>(found - kReductions.begin());
  return true;
}

Option RematOption(std::string* to) {
  return {.name = "--remat",
          .to = to,
          .value = "POLICY",
          .help =
              "rematerialisation policy, such as nothing_saveable or "
              "'save_only_these_names(q_proj,context)' (default: "
              "everything_saveable)"};
}

bool ReadRemat(const std::string& text, step::Remat& out, Findings& findings) {
  if (text.empty()) return true;
  step::RematRefusal refusal;
  auto policy = step::ParseRemat(text, refusal);
  if (!policy) {
    findings.Add(code::kUsage, FlagPlace("--remat", text), refusal.why,
                 refusal.help);
    return false;
  }
  out = std::move(*policy);
  return true;
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
