// A setting is read from a text, and shown as the same text:
//
//   --moments-dtype F32,BF16  ->  Settings::first_moment, second_moment
//     ->  "--moments-dtype F32,BF16"
//
// Reading goes on after a wrong value, so that one run reports all of them.
#include "cost/setting_rows.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <system_error>
#include <type_traits>
#include <utility>

#include "cost/rates.h"
#include "model/option_value.h"
#include "source/file.h"
#include "source/other_words.h"
#include "source/wording.h"
#include "step/recompute.h"

namespace shardc::cost {
namespace {

using Given = const GivenSetting&;
using Text = std::optional<std::string>;

constexpr int64_t kMostCount = int64_t{1} << 40;
constexpr double kLeastCapacity = 0.1, kMostCapacity = 64;
constexpr int64_t kMostZero = 3;

// The names of LossKind's values. The first is not given.
constexpr std::string_view kLossKindNames[] = {"", kLossNames[0], kLossNames[1],
                                               kLossNames[2]};

template <typename Of>
struct InnerOf {
  using Type = Of;
};
template <typename Of>
struct InnerOf<std::optional<Of>> {
  using Type = Of;
};
template <auto kMember>
using Member =
    typename InnerOf<std::decay_t<decltype(Settings().*kMember)>>::Type;

void RefuseName(Given given, std::span<const std::string_view> known,
                Findings& findings) {
  RefuseWord(given.place, given.flag, given.text, known, findings);
}

// A count from 1 on.
template <auto kMember>
void ReadCount(Given given, Settings& to, Findings& findings) {
  const auto value = ParseInteger(given.place, given.text, 1, findings);
  if (value && *value > kMostCount) {
    findings.Add(code::kNumber, given.place,
                 "`" + std::string(given.flag) + "` is more than 2^40");
  } else if (value) {
    to.*kMember = *value;
  }
}
template <auto kMember>
Text ShowCount(const Settings& of) {
  const std::optional<int64_t> count = of.*kMember;
  return count ? Text(std::to_string(*count)) : std::nullopt;
}

// A dtype of at least one byte.
void ReadType(Given given, const std::string& text, std::optional<Dtype>& to,
              Findings& findings) {
  to = ParseDtype(text);
  if (to && DtypeBits(*to) >= 8) return;
  findings.Add(code::kUsage, given.place,
               ShortQuote(text) +
                   " is not a dtype of at least one byte per element, such as "
                   "bfloat16",
               HelpForOtherWord("dtype", text));
}
template <auto kMember>
void ReadDtype(Given given, Settings& to, Findings& findings) {
  std::optional<Dtype> dtype;
  ReadType(given, given.text, dtype, findings);
  if (dtype) to.*kMember = *dtype;
}
template <auto kMember>
Text ShowDtype(const Settings& of) {
  const std::optional<Dtype> dtype = of.*kMember;
  if (!dtype || of.*kMember == Settings().*kMember) return {};
  return std::string(DtypeName(*dtype));
}

// One of the names of an enumeration, in the order of its values.
template <auto kMember, auto& kNames>
void ReadChoice(Given given, Settings& to, Findings& findings) {
  const auto* const found =
      std::find(std::begin(kNames), std::end(kNames), given.text);
  if (found != std::end(kNames)) {
    to.*kMember = static_cast<Member<kMember>>(found - std::begin(kNames));
    return;
  }
  const std::span<const std::string_view> known(kNames);
  RefuseName(given, known.subspan(known.front().empty() ? 1 : 0), findings);
}
template <auto kMember, auto& kNames>
Text NameOf(const Settings& of) {
  const std::optional<Member<kMember>> value = of.*kMember;
  if (!value) return {};
  return std::string(kNames[static_cast<size_t>(*value)]);
}
template <auto kMember, auto& kNames>
Text ShowChoice(const Settings& of) {
  if (of.*kMember == Settings().*kMember) return {};
  return NameOf<kMember, kNames>(of);
}

template <auto kMember>
void SwitchOn(Given /*given*/, Settings& to, Findings& /*findings*/) {
  to.*kMember = true;
}
template <auto kMember>
Text ShowSwitch(const Settings& of) {
  return of.*kMember ? Text("") : std::nullopt;
}

void ReadMaster(Given given, Settings& to, Findings& findings) {
  to.master_given = true;
  to.master.reset();
  if (given.text != "none") ReadType(given, given.text, to.master, findings);
}
Text ShowMaster(const Settings& of) {
  if (!of.master_given) return {};
  return std::string(of.master ? DtypeName(*of.master) : "none");
}

void ReadMoments(Given given, Settings& to, Findings& findings) {
  const size_t comma = std::min(given.text.find(','), given.text.size());
  ReadType(given, given.text.substr(0, comma), to.first_moment, findings);
  to.second_moment = to.first_moment;
  if (comma == given.text.size()) return;
  ReadType(given, given.text.substr(comma + 1), to.second_moment, findings);
}
Text ShowMoments(const Settings& of) {
  if (!of.first_moment || !of.second_moment) return {};
  return std::string(DtypeName(*of.first_moment)) + "," +
         std::string(DtypeName(*of.second_moment));
}

void ReadZero(Given given, Settings& to, Findings& findings) {
  const std::string help = HelpForOtherWord("zero", given.text);
  if (!help.empty()) {
    findings.Add(code::kUsage, given.place,
                 ShortQuote(given.text) + " is no stage of ZeRO", help);
    return;
  }
  if (given.text.find_first_not_of("0123456789") != std::string::npos) {
    findings.Add(code::kUsage, given.place,
                 ShortQuote(given.text) + " is no stage of ZeRO",
                 "write `1` for the optimizer's states, `2` for gradients too, "
                 "`3` for parameters too, or `0`");
    return;
  }
  const auto stage = ParseInteger(given.place, given.text, 0, findings);
  if (stage && *stage > kMostZero) {
    findings.Add(code::kUsage, given.place, "ZeRO has the stages 0 to 3",
                 "write `3`, which shards all");
  } else if (stage) {
    to.zero = static_cast<int>(*stage);
  }
}

void ReadRemat(Given given, Settings& to, Findings& findings) {
  step::RematRefusal refusal;
  auto policy = step::ParseRemat(given.text, refusal);
  if (policy) {
    to.remat = std::move(*policy);
  } else {
    findings.Add(code::kUsage, given.place, refusal.why, refusal.help);
  }
}
Text ShowRemat(const Settings& of) { return of.remat.text; }

// Refuses float8_e8m0: blocks of numbers have scales of this dtype, but no
// matmul has operands of it.
void RefuseScales(Given given, const std::optional<Dtype>& dtype,
                  Findings& findings) {
  if (dtype != Dtype::kF8E8M0) return;
  findings.Add(code::kUsage, given.place,
               ShortQuote(given.text) +
                   " is the dtype of the scales of blocks, and no matmul has "
                   "operands of it",
               "write `--matmul-dtype mxfp8` for 8-bit matmuls with a scale "
               "for each 32 numbers, or float8_e4m3fn");
}

void ReadActivations(Given given, Settings& to, Findings& findings) {
  ReadDtype<&Settings::activations>(given, to, findings);
  RefuseScales(given, to.activations, findings);
}

void ReadOperation(Given given, Settings& to, Findings& findings) {
  to.operation = exec::FindOperation(given.text);
  if (to.operation != nullptr) return;
  std::vector<std::string_view> known;
  for (const exec::Operation* operation : exec::Operations()) {
    known.push_back(operation->name);
  }
  RefuseName(given, known, findings);
}
Text ShowOperation(const Settings& of) {
  return of.operation == nullptr ? Text() : std::string(of.operation->name);
}

void ReadProfileOf(Given given, Settings& to, Findings& findings) {
  to.read_profile = ReadProfile(given.text, findings);
  to.profile = to.read_profile.get();
}
Text ShowProfile(const Settings& of) {
  return of.profile == nullptr ? Text() : std::string(of.profile->name);
}

void ReadStack(Given given, Settings& to, Findings& findings) {
  to.stack = FindStack(given.text);
  if (to.stack == nullptr) RefuseName(given, StackNames(), findings);
}
Text ShowStack(const Settings& of) {
  return of.stack == nullptr ? Text() : std::string(of.stack->name);
}

// A dtype, or numbers of 8 or 4 bits with a scale for each of many blocks.
void ReadMatmuls(Given given, Settings& to, Findings& findings) {
  for (const Scaling scaling : {Scaling::kMx, Scaling::kBlocks, Scaling::kNv}) {
    if (given.text != kScalingNames[static_cast<size_t>(scaling)]) continue;
    to.matmuls = scaling == Scaling::kNv ? Dtype::kF4 : Dtype::kF8E4M3;
    to.scaling = scaling;
    return;
  }
  ReadType(given, given.text, to.matmuls, findings);
  if (to.matmuls == Dtype::kF4) {
    findings.Add(code::kUsage, given.place,
                 ShortQuote(given.text) +
                     " has no scales, and no device multiplies "
                     "such numbers without them",
                 "write `nvfp4` for 4-bit matmuls with a scale for each 16 "
                 "numbers");
  }
  RefuseScales(given, to.matmuls, findings);
}
Text ShowMatmuls(const Settings& of) {
  if (!of.matmuls) return {};
  return std::string(of.scaling == Scaling::kTensor
                         ? DtypeName(*of.matmuls)
                         : kScalingNames[static_cast<size_t>(of.scaling)]);
}

void ReadCapacity(Given given, Settings& to, Findings& findings) {
  double factor = 0;
  const char* const begin = given.text.data();
  const char* const end = begin + given.text.size();
  const auto [stop, error] = std::from_chars(begin, end, factor);
  if (error == std::errc() && stop == end && factor >= kLeastCapacity &&
      factor <= kMostCapacity) {
    to.capacity_factor = factor;
    return;
  }
  findings.Add(code::kUsage, given.place,
               ShortQuote(given.text) + " is no number from 0.1 to 64",
               "1.25 lets an expert compute a quarter more than its equal "
               "part of the rows");
}
Text ShowCapacity(const Settings& of) {
  if (!of.capacity_factor) return {};
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, *of.capacity_factor);
  return std::string(text, end.ptr);
}

template <auto kMember>
void ReadBytes(Given given, Settings& to, Findings& findings) {
  to.*kMember = ParseBytes(given.place, given.flag, given.text, findings);
}
Text ShowNothing(const Settings& /*of*/) { return {}; }

#define COUNT(name) ReadCount<&Settings::name>, ShowCount<&Settings::name>
#define DTYPE(name) ReadDtype<&Settings::name>, ShowDtype<&Settings::name>
#define CHOICE(name, names) \
  ReadChoice<&Settings::name, names>, ShowChoice<&Settings::name, names>
#define SWITCH(name) SwitchOn<&Settings::name>, ShowSwitch<&Settings::name>

using enum SettingModes;
using enum HelpNeed;

constexpr SettingRow kRows[] = {
    {"--batch", "N", "rows per step over all devices (default: the target's)",
     COUNT(batch), kAll, true, kMost},
    {"--seq", "N", "tokens per row, in training and prefill", COUNT(length),
     kPrompts, true, kMost},
    {"--kv-len", "N", "tokens that the cache can hold (default: the target's)",
     COUNT(kv_length), kServing, true},
    {"--microbatches", "N",
     "number of micro-batches per step (default: that of `stages:`, else 1)",
     COUNT(microbatches), kTrain, true},
    {"--reduce", "sharded|once|each",
     "when gradients of micro-batches are reduced: over axes that shard them "
     "in each and over others once, all once, or all in each (default: "
     "sharded)",
     CHOICE(reduction, step::kReductionNames), kTrain},
    {"--optimizer", "adamw|adafactor|lion|momentum|muon|sgd",
     "optimizer, for the bytes of its states (default: adamw)",
     ReadChoice<&Settings::optimizer, kOptimizerNames>,
     NameOf<&Settings::optimizer, kOptimizerNames>, kTrain, true, kOften},
    {"--master-dtype", "DTYPE|none",
     "dtype of the optimizer's copy of the parameters (default: float32 for "
     "narrower parameters)",
     ReadMaster, ShowMaster, kTrain},
    {"--moments-dtype", "DTYPE[,DTYPE]",
     "dtypes of the first and the second moments (default: float32)",
     ReadMoments, ShowMoments, kTrain},
    {"--grad-dtype", "DTYPE",
     "dtype of gradients (default: that of their parameters)", DTYPE(gradients),
     kTrain},
    {"--offload-optimizer", "",
     "the optimizer's states are in the memory of the host, which updates the "
     "parameters",
     SWITCH(offloads_optimizer), kTrain},
    {"--zero", "0|1|2|3",
     "ZeRO stage, which shards over replicas; 1: the "
     "optimizer's states, 2: gradients too, 3: "
     "parameters too (default: 0)",
     ReadZero, ShowCount<&Settings::zero>, kTrain, true, kOften},
    {"--remat", "POLICY",
     "rematerialisation policy, such as "
     "nothing_saveable; or "
     "'save_only_these_names(q_proj,context)' (default: "
     "everything_saveable)",
     ReadRemat, ShowRemat, kTrain, true, kOften},
    {"--dtype", "DTYPE", "dtype of activations (default: bfloat16)",
     ReadActivations, ShowDtype<&Settings::activations>},
    {"--logits-dtype", "DTYPE", "dtype of the logits (default: float32)",
     DTYPE(logits)},
    {"--kv-dtype", "DTYPE",
     "dtype of the KV cache; int8 has a float32 scale per token and head "
     "(default: bfloat16)",
     DTYPE(cache), kServing},
    {"--operation", "NAME",
     "operation that computes attention (default: the target's, else "
     "flash_attn2, and flash_decoding in decode)",
     ReadOperation, ShowOperation},
    {"--profile", "NAME|FILE",
     "accelerator, such as h100-sxm, or a file of one "
     "(default: the mesh's)",
     ReadProfileOf, ShowProfile, kAll, true, kMost, DeviceNames},
    {"--stack", "NAME",
     "training software: compiled, megatron, megatron-2026-02, "
     "megatron-2026-06, xla, eager, eager-bf16, hf, megatron-2021 or "
     "deepspeed-2021 (default: xla for TPUs, Trainium and parameters of JAX, "
     "else compiled)",
     ReadStack, ShowStack, kTrain, false, kSeldom, StackNames},
    {"--loss", "eager|compiled|fused",
     "how the loss is computed, for the copies of the logits that it holds: "
     "eager 4, compiled 1.5, fused none (default: as the software computes it)",
     CHOICE(loss, kLossKindNames), kTrain},
    {"--loss-chunk", "N",
     "tokens of a device whose logits are computed at once (default: all of a "
     "micro-batch)",
     COUNT(loss_chunk), kTrain},
    {"--overlap-tp", "",
     "tensor-parallel collectives overlap with matmuls, as with async TP",
     SWITCH(overlap_tensor), kTrain},
    {"--matmul-dtype", "DTYPE",
     "dtype of the matmuls of layers, such as float8_e4m3fn; mxfp8, fp8_blocks "
     "and nvfp4 have a scale for each of many blocks (default: that of "
     "activations)",
     ReadMatmuls, ShowMatmuls, kTrain},
    {"--dispatcher", "alltoall|deepep|hybridep",
     "what sends tokens to their experts: alltoall sends a copy for each "
     "expert, deepep and hybridep one to each device and host (default: "
     "alltoall)",
     CHOICE(dispatcher, kDispatcherNames), kTrain},
    {"--ep-overlap", "",
     "tokens are sent to experts while another micro-batch is computed",
     SWITCH(overlap_experts), kTrain},
    {"--graphs", "none|partial|step",
     "CUDA graphs: none, those of attention and of the router, or those of the "
     "whole step (default: none; XLA: step)",
     CHOICE(graphs, kGraphsNames), kTrain},
    {"--routing", "balanced|natural",
     "whether all experts get equally many tokens, as benchmarks force it, or "
     "as many as a router sends (default: balanced)",
     CHOICE(routing, kRoutingNames), kTrain},
    {"--capacity-factor", "X",
     "rows that an expert computes at most, as a multiple of its equal part; "
     "further rows are dropped (default: none are)",
     ReadCapacity, ShowCapacity, kTrain},
    {"--memory", "SIZE", "memory of a device, such as 80GiB",
     ReadBytes<&Settings::memory>, ShowNothing, kAll, false, kMost}};

#undef COUNT
#undef DTYPE
#undef CHOICE
#undef SWITCH

// Checks what two settings give together.
void CheckTogether(std::span<const GivenSetting> given,
                   const Settings& settings, Findings& findings) {
  const auto place = [&](std::string_view flag) {
    const auto found =
        std::find_if(given.begin(), given.end(),
                     [&](const GivenSetting& one) { return one.flag == flag; });
    return found == given.end() ? FlagPlace(flag, "") : found->place;
  };
  if (LacksFp4(settings)) {
    findings.Add(code::kUsage, place("--matmul-dtype"),
                 "the profile has no rate of matmuls in 4 bits",
                 "write `peaks: {fp4: ...}` in a profile of your own, with "
                 "`base:`, or choose gb200 or gb300");
  }
  if (LacksHostMemory(settings)) {
    findings.Add(code::kUsage, place("--profile"),
                 "the profile has no rate of the memory of the host, where "
                 "`--offload-optimizer` holds the optimizer's states",
                 "write `links: {host: {bandwidth: ...}}` in a profile of your "
                 "own, with `base:`, or choose h100-sxm or h200-sxm");
  }
}

}  // namespace

bool HasEffect(SettingModes modes, Mode mode) {
  switch (modes) {
    case kAll:
      return true;
    case kTrain:
      return mode == Mode::kTrain;
    case kPrompts:
      return !IsGeneration(mode);
    case kServing:
      return mode != Mode::kTrain;
  }
  return true;
}

std::span<const SettingRow> SettingRows() { return kRows; }

const SettingRow& SettingRowOf(std::string_view flag) {
  return *std::find_if(std::begin(kRows), std::end(kRows),
                       [&](const SettingRow& row) { return row.flag == flag; });
}

std::optional<Settings> ReadSettings(std::span<const GivenSetting> given,
                                     Mode mode, Settings base,
                                     Findings& findings) {
  const size_t before = findings.errors();
  for (const GivenSetting& one : given) {
    if (!one.text.empty()) SettingRowOf(one.flag).read(one, base, findings);
  }
  // Prefill and decode do not divide their batch into micro-batches.
  if (mode != Mode::kTrain) base.microbatches = 1;
  CheckTogether(given, base, findings);
  if (findings.errors() > before) return std::nullopt;
  return base;
}

bool ReadSetting(std::string_view flag, const std::string& text, Settings& to,
                 Findings& findings) {
  if (text.empty()) return true;
  const size_t before = findings.errors();
  SettingRowOf(flag).read({flag, text, FlagPlace(flag, text)}, to, findings);
  return findings.errors() == before;
}

std::shared_ptr<const DeviceProfile> ReadProfile(const std::string& name,
                                                 Findings& findings) {
  if (name.empty()) return nullptr;
  if (const DeviceProfile* known = FindDeviceProfile(name)) {
    return {std::shared_ptr<const void>(), known};
  }
  if (name.find_first_of("./") == std::string::npos) {
    RefuseName({"--profile", name, FlagPlace("--profile", name)}, DeviceNames(),
               findings);
    return nullptr;
  }
  SourceRef source = ReadSource(name, findings);
  if (source == nullptr) return nullptr;
  auto own = ParseProfile(std::move(source), findings);
  if (own == nullptr) return nullptr;
  return {own, &own->profile};
}

std::vector<std::string> StatedSettings(const Settings& settings, Mode mode,
                                        Stated stated) {
  std::vector<std::string> out;
  for (const SettingRow& row : kRows) {
    if (!HasEffect(row.modes, mode) ||
        (row.always_stated && stated == Stated::kChanges)) {
      continue;
    }
    const Text text = row.show(settings);
    if (!text) continue;
    out.emplace_back(row.flag);
    if (!row.value.empty()) out.back() += " " + *text;
  }
  return out;
}

}  // namespace shardc::cost
