// Determines which attention cases `shardc verify` runs, and their sizes. Each
// size is taken from the flag --attention, else from the model's config.json,
// else from the target. The number of heads must be given. The default batch is
// the number of devices, and the default length is 128 times that number, so
// that every mesh axis divides them. A run that is too large for the memory of
// any machine is refused before it starts. For example:
//
//   heads=32 on 8 devices  ->  batch 8, kv_len 1024, head_dim 128
#include "cli/verify_request.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/inputs.h"
#include "cli/output.h"
#include "exec/operations/operation.h"
#include "model/mesh_layout.h"
#include "model/option_value.h"
#include "parse/operations.h"
#include "parse/project.h"
#include "resolve/resolve.h"
#include "source/list.h"
#include "source/other_words.h"
#include "source/sink.h"
#include "source/wording.h"
#include "verify/cases/matrix.h"

namespace shardc::cli {
namespace {

constexpr int64_t kMostSteps = 4096;
constexpr int64_t kMostTokens = int64_t{1} << 32;

template <class T, class Parse>
bool ParseEach(const std::vector<std::string>& texts, std::vector<T>& out,
               std::string_view known, Findings& findings, Parse parse) {
  for (const std::string& text : texts) {
    const auto value = parse(text);
    if (!value) {
      findings.Add(code::kUsage, {},
                   "`" + text + "` is none of: " + std::string(known),
                   HelpForOtherWord("dtype", text));
      return false;
    }
    AddOnce(out, *value);
  }
  return true;
}

std::optional<Dtype> RealDtype(const std::string& text) {
  const auto dtype = ParseDtype(text);
  if (dtype == Dtype::kF32 || dtype == Dtype::kBF16 || dtype == Dtype::kF16) {
    return dtype;
  }
  return std::nullopt;
}

// Records that the target lists this mode for the operation.
void AddMode(const exec::Operation* operation, Mode mode,
             verify::Request& request) {
  for (auto& [one, modes] : request.only) {
    if (one == operation) return AddOnce(modes, mode);
  }
  request.only.push_back({operation, {mode}});
}

// Chooses the operations: those that the flag names, else those of the target,
// else all. Returns false after a finding.
bool ChooseOperations(const std::vector<std::string>& names,
                      const VerifyInput& input, verify::Request& request,
                      Findings& findings) {
  for (const std::string& name : names) {
    const auto* operation = NamedOperation(name, {}, findings);
    if (operation == nullptr) return false;
    AddOnce(request.operations, operation);
  }
  for (const VerifyInput::Named& named : input.operations) {
    const auto* operation =
        NamedOperation(named.operation, named.place, findings);
    if (operation == nullptr) return false;
    if (names.empty()) AddOnce(request.operations, operation);
    if (named.mode) AddMode(operation, *named.mode, request);
  }
  if (!request.operations.empty()) return true;
  const auto all = exec::Operations();
  request.operations.assign(all.begin(), all.end());
  return true;
}

// Chooses the modes: those of the flag, else those that the target lists for
// each operation, else the target's modes, else all modes that an operation may
// have. Returns false after a finding.
bool ChooseModes(const VerifyFlags& flags, const Target& target,
                 verify::Request& request, Findings& findings) {
  auto modes = ParseModes(flags.mode, findings);
  if (!modes) return false;
  // Flags that name operations and modes override the target's lists.
  if (!modes->empty() && !flags.operations.empty()) request.only.clear();
  const auto any_covers = [&](Mode mode) {
    return std::any_of(request.operations.begin(), request.operations.end(),
                       [&](const auto* operation) {
                         return request.Covers(*operation, mode);
                       });
  };
  for (const Mode mode : *modes) {
    if (any_covers(mode)) continue;
    findings.Add(code::kUsage, target.place,
                 "the target lists no operation for `" +
                     std::string(ModeName(mode)) + "`",
                 "add one to its `operations`, or give --operation");
    return false;
  }
  const bool by_mode =
      std::all_of(request.operations.begin(), request.operations.end(),
                  [&](const auto* operation) {
                    return request.OnlyModes(*operation) != nullptr;
                  });
  if (modes->empty() && !by_mode) *modes = target.modes;
  if (modes->empty()) {
    std::copy_if(kAllModes.begin(), kAllModes.end(), std::back_inserter(*modes),
                 any_covers);
  }
  request.modes = std::move(*modes);
  return true;
}

// Chooses the features of attention, such as `bias`, that are tested. `names`
// is the value of --features: `all`, `none`, or names of features. Features
// that the model itself has are tested too, unless the value is `none`.
// Returns false after a finding.
bool ChooseFeatures(const std::vector<std::string>& names,
                    verify::Request& request, Findings& findings) {
  const auto all = verify::AllFeatures();
  if (names == std::vector<std::string>{"all"}) {
    request.more.assign(all.begin(), all.end());
    return true;
  }
  if (names == std::vector<std::string>{"none"}) {
    request.features = {};
    request.window.reset();
    request.large_logits = false;
    return true;
  }
  std::vector<std::string> known = {"all", "none"};
  std::string list = "all, none";
  for (const verify::Feature feature : all) {
    known.emplace_back(verify::FeatureName(feature));
    list += ", " + known.back();
  }
  for (const std::string& name : names) {
    const auto feature = verify::ParseFeature(name);
    if (!feature) {
      const bool alone = name == "all" || name == "none";
      findings.Add(code::kUsage, {},
                   alone ? "`" + name + "` is given with other features"
                         : "no feature is called `" + name + "`",
                   alone ? "give `" + name + "` alone, or names only"
                         : DidYouMean(name, known, "there are: " + list));
      return false;
    }
    AddOnce(request.more, *feature);
  }
  request.named = !names.empty();
  return true;
}

// Chooses the sizes. Each size is taken from its option, else from the model,
// else from the target. The number of heads must be given; otherwise adds a
// finding. Other sizes have defaults.
std::optional<verify::Sizes> ChooseSizes(const VerifyFlags& flags,
                                         const Target& target, const Mesh& mesh,
                                         const ModelConfig* model,
                                         verify::Request& request,
                                         Findings& findings) {
  AttentionFlag given;
  if (!flags.attention.empty()) {
    const auto parsed = ParseAttention(flags.attention, findings);
    if (!parsed) return std::nullopt;
    given = *parsed;
  }
  if (model != nullptr) {
    if (!given.heads) given.heads = model->heads;
    if (!given.kv_heads) given.kv_heads = model->kv_heads;
    if (!given.head_dim) {
      given.head_dim = model->head_dim;
      // The model's value_dim is used only together with its head_dim. A model
      // with latent attention has latent_value_dim instead, which is read
      // below.
      if (!given.value_dim) given.value_dim = model->value_dim;
    }
    request.causal = model->causal;
    if (!given.window && model->sliding_window) {
      // `given.window` is the number of keys from the first key of the window
      // to the key at the query's own position. Without a causal mask, half of
      // a model's window is before this position and half after it. ModernBERT
      // has the window 128, so the number is 64 + 1.
      given.window = model->causal ? *model->sliding_window
                                   : *model->sliding_window / 2 + 1;
    }
    if (!given.latent) given.latent = model->latent_rank;
    if (!given.rope_dim) given.rope_dim = model->latent_rope_dim;
    if (!given.head_dim && model->hidden && given.heads) {
      given.head_dim = *model->hidden / *given.heads;
    }
  }
  if (!given.heads) {
    findings.Add(code::kUsage, {},
                 model == nullptr
                     ? "the attention's sizes are not known"
                     : "the model's config.json gives no number of attention "
                       "heads (`--model`)",
                 "give --model config.json, or --attention heads=32,"
                 "kv_heads=8,head_dim=128");
    return std::nullopt;
  }
  // A length of 0 is not given.
  int64_t batch = target.batch.value_or(mesh.devices), length = 0;
  int64_t kv_length = target.kv_len.value_or(0);
  if (!ReadCountOption("--batch", flags.batch, batch, findings) ||
      !ReadCountOption("--seq", flags.length, length, findings) ||
      !ReadCountOption("--kv-len", flags.kv_length, kv_length, findings)) {
    return std::nullopt;
  }
  verify::Sizes out;
  out.heads = *given.heads;
  out.key_heads = given.kv_heads.value_or(out.heads);
  out.head_dim = given.head_dim.value_or(128);
  out.value_dim = given.value_dim.value_or(0);
  out.batch = batch;
  const int64_t usual = length > 0 ? length : 128 * mesh.devices;
  out.key_length = kv_length > 0 ? kv_length : usual;
  out.query_length = length > 0 ? length : out.key_length;
  request.window = given.window;
  out.latent_rank = given.latent.value_or(0);
  out.latent_rope_dim = given.rope_dim.value_or(0);
  if (model != nullptr && !given.value_dim) {
    out.latent_value_dim = model->latent_value_dim.value_or(0);
  }
  if (!verify::CheckSizes(out, findings)) return std::nullopt;
  return out;
}

// Chooses layouts and dtypes: the flag's values, else the target's, else all.
// Returns false after a finding.
bool ChooseLayouts(const VerifyFlags& flags, const VerifyInput& input,
                   verify::Request& request, Findings& findings) {
  if (!ParseEach(flags.layouts, request.layouts, "bthd, bhtd, thd", findings,
                 ParseLayout) ||
      !ParseEach(flags.dtypes, request.dtypes, "float32, bfloat16, float16",
                 findings, RealDtype)) {
    return false;
  }
  if (request.layouts.empty()) request.layouts = input.layouts;
  if (request.dtypes.empty()) request.dtypes = input.dtypes;
  request.kv_dtype = input.kv_dtype;
  if (request.layouts.empty()) {
    request.layouts.assign(kAllLayouts.begin(), kAllLayouts.end());
  }
  if (request.dtypes.empty()) {
    request.dtypes = {Dtype::kF32, Dtype::kBF16, Dtype::kF16};
  }
  if (!flags.kv_dtype.empty()) {
    const auto dtype = ParseDtype(flags.kv_dtype);
    if (dtype != Dtype::kI8 && !RealDtype(flags.kv_dtype)) {
      findings.Add(code::kUsage, {},
                   "`" + flags.kv_dtype +
                       "` is none of: float32, bfloat16, float16, int8",
                   HelpForOtherWord("dtype", flags.kv_dtype));
      return false;
    }
    request.kv_dtype = dtype;
  }
  const bool sharp = IsAmong(Dtype::kF32, request.dtypes);
  if (!sharp) {
    request.remarks.emplace_back(
        "float32 is the sharper judge: in 16 bits an error may be as large as "
        "the rounding of the output");
  }
  if (request.kv_dtype == Dtype::kI8) {
    request.remarks.push_back(
        "int8 is for caches and pages: keys and values that none holds have "
        "the dtype of --dtype");
  }
  return true;
}

bool ChooseRun(const VerifyFlags& flags, verify::Request& request,
               Findings& findings) {
  if (!flags.seed.empty()) {
    const auto seed = ParseInteger("--seed", flags.seed, 0, findings);
    if (!seed) return false;
    request.seed = static_cast<uint64_t>(*seed);
  }
  request.full = flags.full;
  if (!flags.steps.empty()) {
    const auto steps = ParseInteger("--steps", flags.steps, 1, findings);
    if (!steps) return false;
    if (*steps > kMostSteps) {
      findings.Add(code::kUsage, {},
                   "`--steps` is " + CountText(*steps) + ", " +
                       CountText(kMostSteps) + " at most are run");
      return false;
    }
    request.steps = *steps;
  }
  return true;
}

// Returns the mesh with factors in place of axes over which KV heads are
// replicated.
Mesh MeshOfHeads(const RuleSet& rules, const Resolver& resolver,
                 const Mesh& mesh, const verify::Request& request) {
  if (!rules.policy.kv_replicate.value_or(false)) return mesh;
  constexpr size_t kHeads = 2;  // index in [batch, length, heads, head size]
  std::vector<Spec> specs;
  for (const Mode mode : request.modes) {
    for (const AttentionTensor& one : AttentionSpecs(resolver, mode, {})) {
      if (one.name != "key") continue;
      const auto axes = KvHeadAxes(mesh, AxesAt(one.resolved.spec, kHeads),
                                   request.sizes.key_heads);
      if (axes) specs.push_back({*axes});
    }
  }
  return RefinedMesh(mesh, specs).value_or(mesh);
}

}  // namespace

const exec::Operation* NamedOperation(const std::string& name,
                                      const Place& place, Findings& findings) {
  if (const exec::Operation* found = exec::FindOperation(name)) return found;
  std::vector<std::string> known;
  std::string list;
  for (const exec::Operation* operation : exec::Operations()) {
    known.emplace_back(operation->name);
    AppendItem(list, ", ", known.back());
  }
  findings.Add(place.source == nullptr ? code::kUsage : code::kReference, place,
               "no operation is called " + ShortQuote(name),
               DidYouMean(name, known, "there are: " + list));
  return nullptr;
}

bool ReadCountOption(std::string_view flag, const std::string& text,
                     int64_t& to, Findings& findings) {
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

Options OptionsOf(VerifyFlags& flags) {
  Options options = MeshInputs(flags.inputs);
  Append(options, RulesInputs(flags.inputs));
  Append(options, ManifestInputs(flags.inputs));
  Append(options, ProjectInputs(flags.inputs));
  Append(options,
         ModelInputs(flags.inputs,
                     "a model's config.json; for its attention's sizes, "
                     "scale, soft cap and sinks"));
  Append(
      options,
      {{.name = "--attention",
        .need = HelpNeed::kMost,
        .to = &flags.attention,
        .value = "KEY=N,...",
        .help = "sizes such as heads=32,kv_heads=8,head_dim=128; in "
                "place of a model's"},
       {.name = "--batch",
        .need = HelpNeed::kOften,
        .to = &flags.batch,
        .value = "N",
        .help = "rows of the batch (default: the target's, else one a "
                "device)"},
       {.name = "--seq",
        .need = HelpNeed::kOften,
        .to = &flags.length,
        .value = "N",
        .help = "tokens per row that are queries (default: as many as keys)"},
       {.name = "--kv-len",
        .need = HelpNeed::kOften,
        .to = &flags.kv_length,
        .value = "N",
        .help = "tokens that the cache can hold (default: the target's, else "
                "128 a device)"},
       {.name = "--operation",
        .need = HelpNeed::kMost,
        .to = &flags.operations,
        .value = "NAME,...",
        .help = "operations to run (default: all)",
        .several = Several::kCommas}});
  Append(options, OptionsOf(flags.settings));
  Append(options,
         {{.name = "--mode",
           .need = HelpNeed::kMost,
           .to = &flags.mode,
           .value = "MODE,...",
           .help = "train, prefill, decode, insert (default: all)",
           .several = Several::kCommas,
           .words = ModeNames},
          {.name = "--layout",
           .need = HelpNeed::kOften,
           .to = &flags.layouts,
           .value = "LAYOUT,...",
           .help = "bthd, bhtd, thd (default: all)",
           .several = Several::kCommas},
          {.name = "--dtype",
           .need = HelpNeed::kMost,
           .to = &flags.dtypes,
           .value = "DTYPE,...",
           .help = "float32, bfloat16, float16 (default: all)",
           .several = Several::kCommas},
          {.name = "--features",
           .to = &flags.features,
           .value = "NAME,...",
           .help = "all, none, or some of them in cases of their own, such as "
                   "bias,segments,sinks (default: the model's, and large "
                   "logits)",
           .several = Several::kCommas},
          {.name = "--kv-dtype",
           .to = &flags.kv_dtype,
           .value = "DTYPE",
           .help = "of the cache: float32, bfloat16, float16, int8 (default: "
                   "as --dtype)"},
          {.name = "--steps",
           .to = &flags.steps,
           .value = "N",
           .help = "decoding steps over a cache (default 4)"},
          {.name = "--seed",
           .to = &flags.seed,
           .value = "N",
           .help = "of the test data (default 0)"},
          {.name = "--full",
           .to = &flags.full,
           .help = "run the sizes given; not the smallest that keep "
                   "their structure"},
          {.name = "--list",
           .need = HelpNeed::kOften,
           .to = &flags.list,
           .help = "list what each operation does with a split "
                   "dimension; and run nothing"},
          {.name = "--dump",
           .need = HelpNeed::kOften,
           .to = &flags.dump,
           .value = "DIR",
           .help = "write each case's tensors and settings to this folder"},
          {.name = "--metrics",
           .to = &flags.metrics,
           .value = "reduced|stacked",
           .help = "per-device metrics in JSON: reduced to minimum, mean and "
                   "maximum (default), or stacked",
           .checked = true}});
  return options;
}

std::optional<VerifyWork> MakeVerifyWork(const VerifyFlags& flags,
                                         int64_t processes,
                                         const Common& common,
                                         Findings& findings) {
  const auto target = ChooseTarget(flags.inputs.asked, findings);
  if (!target) return std::nullopt;
  const auto mesh = LoadMesh(flags.inputs, *target, findings);
  std::shared_ptr<const Compiled> compiled;
  if (mesh && !target->rules.empty() && !target->manifest.empty()) {
    compiled = LoadAndCompile(flags.inputs, *target, common, findings);
    if (compiled == nullptr) return std::nullopt;
  }
  // If there are no rules files, all axis rules have their default values.
  std::optional<RuleSet> rules = RuleSet{};
  if (compiled != nullptr) {
    rules = compiled->rules;
  } else if (!target->rules.empty()) {
    rules = OpenRulesAlone(*target, findings, nullptr,
                           RulesBoundary(*target, flags.inputs.asked));
  }
  if (!mesh || !rules) return std::nullopt;
  const auto resolver = Resolver::Make(*rules, *mesh, findings);
  verify::Request request;
  std::optional<ModelConfig> model;
  if (!target->model.empty()) {
    model = ReadModelConfig(target->model, findings);
    if (!model) return std::nullopt;
  }
  const ModelConfig* const config = model ? &*model : nullptr;
  // `--features none` leaves out the features that the model itself has, too.
  const bool plain = flags.features == std::vector<std::string>{"none"};
  const ModelConfig* const own = plain ? nullptr : config;
  const auto sizes =
      ChooseSizes(flags, *target, *mesh, config, request, findings);
  const VerifyInput& input = target->verify;
  if (!resolver || !sizes ||
      !ChooseOperations(flags.operations, input, request, findings) ||
      !ChooseModes(flags, *target, request, findings) ||
      !ChooseSettings(flags.settings, input, own, *mesh, request, findings) ||
      !ChooseFeatures(flags.features, request, findings)) {
    return std::nullopt;
  }
  request.sizes = *sizes;
  if (!ChooseLayouts(flags, input, request, findings) ||
      !ChooseRun(flags, request, findings)) {
    return std::nullopt;
  }
  if (rules->policy.illegal) request.illegal = *rules->policy.illegal;
  if (!verify::CheckWork(request, *mesh, findings)) return std::nullopt;

  auto matrix = verify::BuildReducedMatrix(
      request, *rules, *resolver,
      MeshOfHeads(*rules, *resolver, *mesh, request), processes, findings);
  if (!matrix) return std::nullopt;
  VerifyWork out;
  out.has_rules = !target->rules.empty();
  out.compiled = std::move(compiled);
  out.model = std::move(model);
  out.matrix = std::move(*matrix);
  out.request = std::move(request);
  out.asked = !flags.operations.empty() || !input.operations.empty();
  return out;
}

// Runs `shardc verify` in one or several processes, and shows its progress.
// Every process of a run makes the same calls, but computes only its own
// devices of the mesh. Only the first process prints.

void ReportMovedBytes(const MovedBytes& bytes, const Ranks& ranks,
                      const Common& common) {
  if (ranks.count() == 1) return;
  PrintMessage(common,
               ranks.MovedText(bytes.recorded, bytes.moved, bytes.crossed));
}

int RunOverRanks(const std::function<int(const Ranks&)>& body,
                 Findings& findings) {
  const auto ranks = Ranks::Join(findings);
  if (!ranks) return kFailed;
  return ranks->End(body(*ranks), findings);
}

// Merges the settings of an operation. From the lowest to the highest
// precedence, they come from the model's configuration, the defaults in the
// settings file, the record of the operation in the settings file, and options.
// Settings that the operation does not use are then removed.
//
//   soft cap 30 of the model, `defaults: {soft_cap: 50}`, --soft-cap 0  ->  0

namespace {

struct SettingFlag {
  Setting setting;
  const char* name;
  const char* type;
  const char* help;
};

// The settings for which there is an option. Other settings can only be given
// in a file.
constexpr SettingFlag kFlags[] = {
    {Setting::kSoftmaxScale, "--softmax-scale", "X",
     "scale of the matmuls of query and key (default: the model's, or "
     "1/sqrt(head_dim))"},
    {Setting::kSoftmaxDtype, "--softmax-dtype", "DTYPE",
     "dtype of the softmax (default: float32)"},
    {Setting::kSoftCap, "--soft-cap", "X",
     "soft cap of the logits, 0 for none (default: the model's)"},
    {Setting::kDropout, "--dropout", "P",
     "probability of dropping an attention weight"},
    {Setting::kBlocksizeQ, "--block-q", "N", "query rows per block"},
    {Setting::kBlocksizeK, "--block-k", "N", "keys per block"},
    {Setting::kPageSize, "--page-size", "N", "tokens per page of the cache"},
    {Setting::kSequenceAxis, "--sequence-axis", "AXIS", "axis of a ring"},
    {Setting::kOrder, "--ring-order", "ORDER",
     "order of a ring's sequence: contiguous, zig_zag, striped"},
    {Setting::kDotBits, "--dot-bits", "N",
     "bits that operands of matmuls are quantised to: 8, 4, or 0 for "
     "none"},
};

std::string NumberText(double value) {
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, value,
                                 std::chars_format::general, 6);
  return std::string(text, end.ptr);
}

// Returns only those settings of `record` that the operation uses.
SettingsRecord TakenOf(const SettingsRecord& record,
                       const exec::Operation& operation) {
  SettingsRecord out = record;
  for (size_t i = 0; i < kSettingNames.size(); ++i) {
    const auto setting = static_cast<Setting>(i);
    if (!operation.Takes(setting)) out.Drop(setting);
  }
  return out;
}

std::string QuotedList(std::span<const std::string_view> names) {
  std::string out;
  for (std::string_view name : names) {
    out += (out.empty() ? "`" : ", `") + std::string(name) + "`";
  }
  return out;
}

bool ReadFlags(const SettingsFlags& flags,
               std::span<const KnownOperation> known,
               const verify::Request& request, SettingsRecord& record,
               Findings& findings) {
  bool good = true;
  for (const SettingFlag& flag : kFlags) {
    const auto& text = flags.texts[static_cast<size_t>(flag.setting)];
    if (!text) continue;
    if (!ReadSetting(flag.name, flag.setting, *text, record, findings)) {
      good = false;
      continue;
    }
    const bool taken =
        std::any_of(request.operations.begin(), request.operations.end(),
                    [&](const exec::Operation* operation) {
                      return operation->Takes(flag.setting);
                    });
    if (taken) continue;
    findings.Add(
        code::kUsage, {},
        "`" + std::string(flag.name) +
            "` does not apply to the requested operations",
        "it is a setting of " + QuotedList(TakenBy(flag.setting, known)));
    good = false;
  }
  return good;
}

SettingsRecord RecordOf(const ModelConfig* model) {
  SettingsRecord out;
  if (model == nullptr) return out;
  out.softmax_scale = model->softmax_scale;
  out.soft_cap = model->soft_cap;
  return out;
}

// Returns whether the request verifies an operation that generates tokens one
// by one with a KV cache. The keys in such a cache are rotated (RoPE).
bool HasCaches(const verify::Request& request) {
  const bool generates =
      std::any_of(request.modes.begin(), request.modes.end(), IsGeneration);
  return generates &&
         std::any_of(request.operations.begin(), request.operations.end(),
                     [](const exec::Operation* operation) {
                       return operation->trace == exec::StateTrace::kCache;
                     });
}

// If the request has operations with a KV cache, sets their rotation of keys
// (RoPE) to that of the model.
void AddRotation(const ModelConfig& model, verify::Request& request) {
  if (!model.rope || !HasCaches(request)) return;
  const RopeConfig& rope = *model.rope;
  std::string text = "rotary base " + NumberText(rope.base);
  request.rotation.base = rope.base;
  if (rope.scaling.empty()) {
    request.remarks.push_back(text + ", from the model's rope_theta");
    return;
  }
  const auto kind = exec::ParseRopeKind(rope.scaling);
  if (!kind || *kind == exec::RopeKind::kLongRope) {
    request.remarks.push_back(text + ", without the model's `" + rope.scaling +
                              "` scaling, which is not run");
    return;
  }
  exec::RopeScaling& scaling = request.rotation.scaling;
  scaling.kind = *kind;
  scaling.factor = rope.factor;
  scaling.original_length = static_cast<int64_t>(rope.original_length);
  scaling.beta_fast = rope.beta_fast;
  scaling.beta_slow = rope.beta_slow;
  scaling.truncate = rope.truncate;
  scaling.low_frequency_factor = rope.low_frequency_factor;
  scaling.high_frequency_factor = rope.high_frequency_factor;
  scaling.attention_factor = rope.attention_factor;
  request.remarks.push_back(text + " and " + rope.scaling + " scaling by " +
                            NumberText(rope.factor) +
                            ", from the model's rope_scaling");
}

// If an operation uses multi-head latent attention (MLA), adds a remark on the
// sizes of the latent vectors.
void AddLatentSizes(const ModelConfig& model, verify::Request& request) {
  const bool latent = std::any_of(
      request.operations.begin(), request.operations.end(),
      [](const exec::Operation* operation) { return operation->latent; });
  if (!latent || !model.latent_rank) return;
  std::string text = "a latent of " + std::to_string(*model.latent_rank);
  std::string keys = "kv_lora_rank";
  const auto add = [&](const std::optional<int64_t>& size, const char* what,
                       const char* key) {
    if (!size) return;
    text += std::string(", ") + what + " of " + std::to_string(*size);
    keys += std::string(", ") + key;
  };
  add(model.latent_rope_dim, "a rotated part", "qk_rope_head_dim");
  add(model.latent_value_dim, "values", "v_head_dim");
  request.remarks.push_back(text + ", from the model's " + keys);
}

// Sets the rotation of keys. Adds remarks that list the model's settings that
// are used, and those that have no effect.
void AddRemarks(const ModelConfig& model, const SettingsRecord& own,
                verify::Request& request) {
  bool scale = false, cap = false, dropout = false;
  for (const auto& [name, record] : request.records) {
    scale |= own.softmax_scale && record.softmax_scale == own.softmax_scale;
    cap |= own.soft_cap && record.soft_cap == own.soft_cap;
    dropout |= record.dropout.has_value();
  }
  if (scale) {
    request.remarks.push_back(
        "softmax scale " + NumberText(*own.softmax_scale) +
        ", from the model's " + model.softmax_scale_source);
  }
  if (cap) {
    request.remarks.push_back("soft cap " + NumberText(*own.soft_cap) +
                              ", from the model's attn_logit_softcapping");
  }
  if (model.attention_sinks) {
    request.remarks.push_back("a sink per head, from the model's model_type " +
                              model.model_type);
  }
  AddRotation(model, request);
  AddLatentSizes(model, request);
  if (model.attention_dropout && !dropout) {
    request.remarks.push_back("the model's attention dropout " +
                              NumberText(*model.attention_dropout) +
                              " is not applied: give --dropout to apply it");
  }
}

bool CheckAxis(Setting setting, const std::string& axis, const Place& place,
               const Mesh& mesh, Findings& findings) {
  std::vector<std::string> names;
  std::string list;
  for (const MeshAxis& known : mesh.axes) {
    if (known.name == axis) return true;
    names.push_back(known.name);
    list += (list.empty() ? "`" : ", `") + known.name + "`";
  }
  findings.Add(code::kReference, place,
               "`" + std::string(SettingName(setting)) + "` names `" + axis +
                   "`, which is not an axis of the mesh",
               DidYouMean(axis, names, "the axes are " + list));
  return false;
}

bool CheckAxes(const SettingsRecord& record, const Mesh& mesh,
               Findings& findings) {
  bool good = true;
  if (record.sequence_axis) {
    good = CheckAxis(Setting::kSequenceAxis, *record.sequence_axis,
                     record.sequence_axis_place, mesh, findings);
  }
  if (!record.ring_axes) return good;
  for (const std::string& axis : *record.ring_axes) {
    good &= CheckAxis(Setting::kRingAxes, axis, record.ring_axes_place, mesh,
                      findings);
  }
  return good;
}

}  // namespace

Options OptionsOf(SettingsFlags& flags) {
  Options options = {
      {.name = "--settings",
       .to = &flags.file,
       .value = "FILE",
       .help = "settings of operations (YAML, see shardc-operations(5))"}};
  for (const SettingFlag& flag : kFlags) {
    options.push_back({.name = flag.name,
                       .to = &flags.texts[static_cast<size_t>(flag.setting)],
                       .value = flag.type,
                       .help = flag.help});
  }
  return options;
}

std::optional<OperationsFile> TargetSettings(
    const VerifyInput& input, std::span<const KnownOperation> operations,
    Findings& findings) {
  if (input.inline_settings) {
    return ReadOperationsAt(*input.inline_settings, operations, findings);
  }
  if (input.settings.empty()) return OperationsFile{};
  return ReadOperations(input.settings, operations, findings);
}

bool ChooseSettings(const SettingsFlags& flags, const VerifyInput& input,
                    const ModelConfig* model, const Mesh& mesh,
                    verify::Request& request, Findings& findings) {
  const std::vector<KnownOperation> known = exec::KnownOperations();
  const auto file = flags.file.empty()
                        ? TargetSettings(input, known, findings)
                        : ReadOperations(flags.file, known, findings);
  SettingsRecord by_flags;
  const bool good = ReadFlags(flags, known, request, by_flags, findings);
  if (!file || !good) return false;
  const SettingsRecord own = RecordOf(model);
  for (const exec::Operation* operation : request.operations) {
    SettingsRecord record = own;
    record.Override(file->defaults);
    if (const auto* named = file->Find(operation->name))
      record.Override(*named);
    record.Override(by_flags);
    record = TakenOf(record, *operation);
    if (!CheckAxes(record, mesh, findings)) return false;
    request.records.emplace_back(operation->name, std::move(record));
  }
  if (model == nullptr) return true;
  if (model->attention_sinks) request.features.sinks_rank = 1;
  AddRemarks(*model, own, request);
  return true;
}

}  // namespace shardc::cli
