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
#include <iterator>
#include <string_view>
#include <utility>

#include "cli/attention_flag.h"
#include "cli/dtype_help.h"
#include "cli/output.h"
#include "model/sub_axis.h"
#include "parse/project.h"
#include "resolve/attention.h"
#include "source/wording.h"
#include "verify/cases/limits.h"

namespace shardc::cli {
namespace {

constexpr int64_t kMostSteps = 4096;

template <class T, class Parse>
bool ParseEach(const std::vector<std::string>& texts, std::vector<T>& out,
               std::string_view known, Findings& findings, Parse parse) {
  for (const std::string& text : texts) {
    const auto value = parse(text);
    if (!value) {
      findings.Add(code::kUsage, {},
                   "`" + text + "` is none of: " + std::string(known),
                   DtypeHelp(text));
      return false;
    }
    if (std::find(out.begin(), out.end(), *value) == out.end()) {
      out.push_back(*value);
    }
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

template <class T>
void AddOnce(std::vector<T>& to, T value) {
  if (std::find(to.begin(), to.end(), value) == to.end()) to.push_back(value);
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
    if (std::find(request.more.begin(), request.more.end(), *feature) ==
        request.more.end()) {
      request.more.push_back(*feature);
    }
  }
  request.named = !names.empty();
  return true;
}

// Chooses the sizes. Each size is taken from --attention, else from the model,
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
                 "kv_heads=8,head_dim=128,batch=4,q_len=128,kv_len=4096");
    return std::nullopt;
  }
  if (!given.batch) given.batch = target.batch;
  if (!given.kv_len) given.kv_len = target.kv_len;
  verify::Sizes out;
  out.heads = *given.heads;
  out.key_heads = given.kv_heads.value_or(out.heads);
  out.head_dim = given.head_dim.value_or(128);
  out.value_dim = given.value_dim.value_or(0);
  out.batch = given.batch.value_or(mesh.devices);
  out.key_length =
      given.kv_len.value_or(given.q_len ? *given.q_len : 128 * mesh.devices);
  out.query_length = given.q_len.value_or(out.key_length);
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
                   DtypeHelp(flags.kv_dtype));
      return false;
    }
    request.kv_dtype = dtype;
  }
  const bool sharp = std::find(request.dtypes.begin(), request.dtypes.end(),
                               Dtype::kF32) != request.dtypes.end();
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
    list += (list.empty() ? "" : ", ") + known.back();
  }
  findings.Add(place.source == nullptr ? code::kUsage : code::kReference, place,
               "no operation is called " + ShortQuote(name),
               DidYouMean(name, known, "there are: " + list));
  return nullptr;
}

Options OptionsOf(VerifyFlags& flags) {
  Options options = MeshInputs(flags.inputs);
  Append(options, RulesInputs(flags.inputs));
  Append(options, ManifestInputs(flags.inputs));
  Append(options, ProjectInputs(flags.inputs));
  Append(options, ModelInputs(flags.inputs,
                              "a model's config.json, for its attention's "
                              "sizes, scale, soft cap and sinks"));
  Append(options,
         {{.name = "--attention",
           .to = &flags.attention,
           .value = "KEY=N,...",
           .help = "sizes in place of a model's, such as heads=32,kv_heads=8,"
                   "head_dim=128,batch=4,q_len=128,kv_len=4096"},
          {.name = "--operation",
           .to = &flags.operations,
           .value = "NAME,...",
           .help = "operations to run (default: all)",
           .several = Several::kCommas}});
  Append(options, OptionsOf(flags.settings));
  Append(options,
         {{.name = "--mode",
           .to = &flags.mode,
           .value = "MODE,...",
           .help = "train, prefill, decode, insert (default: all)",
           .several = Several::kCommas,
           .words = ModeNames()},
          {.name = "--layout",
           .to = &flags.layouts,
           .value = "LAYOUT,...",
           .help = "bthd, bhtd, thd (default: all)",
           .several = Several::kCommas},
          {.name = "--dtype",
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
           .help = "run the sizes given, not the smallest that keep their "
                   "structure"},
          {.name = "--list",
           .to = &flags.list,
           .help = "list what each operation does with a split dimension, "
                   "and run nothing"},
          {.name = "--dump",
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

}  // namespace shardc::cli
