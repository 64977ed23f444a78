// Counts the layers of each kind, such as the layers with attention. In a
// hybrid model only some layers have attention. The other layers have, for
// example, a state-space mixer, which stores no keys and values:
//
//   {"num_hidden_layers": 4, "layer_types": ["mamba", "mamba", "attention",
//    "mamba"]}  ->  1 layer with attention
#include "parse/layer_kinds.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "source/json.h"
#include "source/size.h"

namespace shardc {
namespace {

constexpr std::array<std::string_view, 1> kAttentionOffset = {
    "attn_layer_offset"};

// Keys whose value is a period P, which means that every P-th layer attends to
// all tokens.
constexpr std::array<std::string_view, 2> kWindowPattern = {
    "sliding_window_pattern", "global_attn_every_n_layers"};
// The keys under which Bamba, LFM2, Zamba2 and Kimi Linear list the layers with
// attention.
constexpr std::array<std::string_view, 4> kAttentionLists = {
    "attn_layer_indices", "full_attn_idxs", "hybrid_layer_ids",
    "linear_attn_config.full_attn_layers"};
// Keys whose value is a list of the kinds of layers, in RecurrentGemma. The
// list is repeated until all layers have a kind.
constexpr std::array<std::string_view, 2> kRepeated = {"block_types",
                                                       "_block_types"};

// Counts the layers with attention in models such as Jamba, in which every P-th
// layer has attention.
void ReadPeriod(ConfigFields& fields, ModelConfig& config) {
  std::optional<int64_t> period = fields.Count("attn_layer_period").value;
  int64_t first = 4;
  for (const config_families::AttentionPeriod& every :
       config_families::kAttentionEvery) {
    if (!fields.IsA({&every.family, 1})) continue;
    if (!period) period = every.layers;
    first = every.first;
  }
  if (!period) return;
  first = fields.Number(kAttentionOffset).value.value_or(first);
  // In Zamba the period begins after the first three layers, of which the third
  // has attention.
  const bool zamba = fields.IsA(config_families::kAttentionInThird);
  const int64_t layers = *config.layers - (zamba ? 3 : 0);
  int64_t attention = zamba && layers >= 0 ? 1 : 0;
  if (first < *period) {
    for (int64_t i = first; i < layers; i += *period) ++attention;
  }
  config.attention_layers = attention;
}

// Reads which layers of PLaMo-2 have attention: the middle layer of every
// `mamba_step` layers. If a short model lacks this layer, its last layer has
// attention.
bool ReadMambaStep(ConfigFields& fields, ModelConfig& config) {
  const std::optional<int64_t> step = fields.Count("mamba_step").value;
  if (!step || *step < 2 || !fields.IsTrue("mamba_enabled").value_or(true)) {
    return false;
  }
  const int64_t first = *step / 2;
  config.attention_layers =
      std::max<int64_t>((*config.layers - first + *step - 1) / *step, 1);
  const auto full = fields.Find("full_attention_idx");
  if (config.sliding_window && full && full->IsArray()) {
    config.windowed_layers = std::max<int64_t>(
        *config.attention_layers - static_cast<int64_t>(full->size()), 0);
  }
  return true;
}

// Returns the number of integers in the list that are not 0.
int64_t Marked(const JsonValue& list) {
  int64_t out = 0;
  for (const JsonValue one : list.items()) {
    if (one.kind() == JsonKind::kInteger && one.integer() != 0) ++out;
  }
  return out;
}

// Returns the number of layers whose kind is `attention`. The list of kinds is
// repeated over the layers. For example, ["recurrent", "recurrent",
// "attention"] means two of eight layers. Returns nullopt if no kind is
// `attention`, because the list then does not describe attention.
std::optional<int64_t> RepeatedAttention(const JsonValue& kinds,
                                         int64_t layers) {
  const auto length = static_cast<int64_t>(kinds.size());
  int64_t at = 0, out = 0;
  bool listed = false;
  for (const JsonValue kind : kinds.items()) {
    const bool attends = kind.IsString() && kind.string() == "attention";
    if (attends && at < layers) out += (layers - at + length - 1) / length;
    listed = listed || attends;
    ++at;
  }
  return listed ? std::optional(out) : std::nullopt;
}

// Reads the layers of Nemotron-NAS, whose config describes the attention of
// each layer:
//
//   "block_configs": [{"attention": {"n_heads_in_group": 8, "no_op": false}},
//                     {"attention": {"n_heads_in_group": null, "no_op": true}}]
//
// In this example, one layer has attention, with one KV head for eight heads.
// If layers have different numbers of KV heads, the largest number is used.
void ReadBlockConfigs(const JsonValue& blocks, ModelConfig& config) {
  int64_t attention = 0;
  std::optional<int64_t> group;
  bool divides = config.heads.has_value(), listed = false;
  for (const JsonValue block : blocks.items()) {
    const auto own = block.IsObject() ? block.Find("attention") : std::nullopt;
    if (!own || !own->IsObject()) continue;
    listed = true;
    const auto is = [&](std::string_view key) {
      const auto value = own->Find(key);
      return value && value->kind() == JsonKind::kBool && value->boolean();
    };
    if (is("no_op") || is("replace_with_linear")) continue;
    ++attention;
    const auto heads = own->Find("n_heads_in_group");
    if (!heads || heads->kind() != JsonKind::kInteger) continue;
    const int64_t size = heads->integer();
    divides = divides && size > 0 && *config.heads % size == 0;
    group = std::min(group.value_or(size), size);
  }
  if (!listed) return;
  config.attention_layers = attention;
  if (group && divides) config.kv_heads = *config.heads / *group;
}

// Counts the layers with attention in a model whose other layers have a
// state-space mixer, linear attention or a convolution.
void ReadAttentionLayers(ConfigFields& fields, ModelConfig& config) {
  if (fields.IsA(config_families::kAttentionTwice)) {
    // Each layer of these models has two attention blocks. `num_layers` is the
    // number of layers. In the files that transformers writes,
    // `num_hidden_layers` is the number of attention blocks.
    if (const auto layers = fields.Count("num_layers").value) {
      config.layers = layers;
    }
    config.attention_layers = 2 * *config.layers;
    return;
  }
  for (const std::string_view key : kAttentionLists) {
    const auto listed = fields.Find(key);
    if (!listed || !listed->IsArray()) continue;
    config.attention_layers = static_cast<int64_t>(listed->size());
    return;
  }
  // Mllama lists the layers that attend to images. They are not counted,
  // because they have no effect for a text without images.
  const auto crossed = fields.Find("cross_attention_layers");
  if (crossed && crossed->IsArray() &&
      static_cast<int64_t>(crossed->size()) < *config.layers) {
    config.attention_layers =
        *config.layers - static_cast<int64_t>(crossed->size());
    return;
  }
  const auto blocks = fields.Find("block_configs");
  if (blocks && blocks->IsArray() && blocks->size() > 0) {
    ReadBlockConfigs(*blocks, config);
    return;
  }
  // In MiniMax, 1 marks a layer with attention, and 0 a layer with linear
  // attention.
  const auto marks = fields.Find("attn_type_list");
  if (marks && marks->IsArray() && marks->size() > 0) {
    config.attention_layers = Marked(*marks);
    return;
  }
  for (const std::string_view key : kRepeated) {
    const auto kinds = fields.Find(key);
    const auto attention = kinds && kinds->IsArray()
                               ? RepeatedAttention(*kinds, *config.layers)
                               : std::nullopt;
    if (!attention) continue;
    config.attention_layers = attention;
    return;
  }
  const std::optional<int64_t> every =
      fields.Count("full_attention_interval").value;
  if (every || fields.IsA(config_families::kAttentionInFourth)) {
    config.attention_layers = *config.layers / every.value_or(4);
    return;
  }
  if (!ReadMambaStep(fields, config)) ReadPeriod(fields, config);
}

void ReadLayerTypes(const JsonValue& kinds, ModelConfig& config) {
  int64_t windowed = 0, attention = 0;
  for (const JsonValue kind : kinds.items()) {
    const std::string_view name = kind.IsString() ? kind.string() : "";
    const bool sliding =
        name == "sliding_attention" || name == "chunked_attention";
    windowed += sliding ? 1 : 0;
    // The first config.json of Granite 4 calls a layer with full attention
    // `attention`. A `hybrid` layer of Zamba has a mixer and attention.
    const bool full =
        name == "full_attention" || name == "attention" || name == "hybrid";
    attention += sliding || full ? 1 : 0;
  }
  if (attention == 0) return;
  if (attention != config.layers) config.attention_layers = attention;
  if (config.sliding_window || config.attention_chunk) {
    config.windowed_layers = windowed;
  }
}

// Returns the number of layers that rotate queries and keys. By default, every
// fourth layer does not rotate them.
int64_t RotatingLayers(ConfigFields& fields, int64_t layers) {
  const auto marks = fields.Find("no_rope_layers");
  if (marks && marks->IsArray() && marks->size() > 0) return Marked(*marks);
  const std::optional<int64_t> period =
      fields.Count("no_rope_layer_interval").value;
  return layers - layers / period.value_or(4);
}

// Reads the chunks of Llama 4. A layer that rotates queries and keys attends
// within a chunk of tokens. By default, every fourth layer does not rotate them
// and attends to all tokens.
void ReadChunks(ConfigFields& fields, ModelConfig& config) {
  if (!fields.IsA(config_families::kChunked)) return;
  config.attention_chunk = fields.Count("attention_chunk_size").value;
  if (!fields.Has("attention_chunk_size")) config.attention_chunk = 8192;
  if (!config.attention_chunk) return;
  config.windowed_layers = RotatingLayers(fields, *config.layers);
}

// Returns the number of local layers (layers with a window) in a model with a
// pattern such as `LLLG`, in which L is a local layer. The pattern is repeated
// over the layers, and the last layer is never local. Returns nullopt if the
// text is not such a pattern.
std::optional<int64_t> LocalLayers(std::string_view pattern, int64_t layers) {
  if (pattern.empty() ||
      pattern.find_first_not_of("LG") != std::string_view::npos) {
    return std::nullopt;
  }
  const auto local = [](std::string_view text) {
    return static_cast<int64_t>(std::count(text.begin(), text.end(), 'L'));
  };
  const int64_t length = std::ssize(pattern), marked = layers - 1;
  const auto rest = static_cast<size_t>(marked % length);
  return marked / length * local(pattern) + local(pattern.substr(0, rest));
}

// Returns the number of layers that attend within a window. In Qwen3-MoE these
// are all layers, and in SmolLM3 the layers that do not rotate queries and
// keys. In other families the key `max_window_layers`, or the family's default
// for it, determines them. Returns nullopt if there is neither.
std::optional<int64_t> WindowedAfterFirst(ConfigFields& fields,
                                          int64_t layers) {
  if (fields.IsA(config_families::kWindowInAll)) return layers;
  if (fields.IsA(config_families::kWindowUnrotated)) {
    return layers - std::min(RotatingLayers(fields, layers), layers);
  }
  std::optional<int64_t> most = fields.Count("max_window_layers").value;
  // Count() treats 0 as absent, but 0 is a valid number of layers here.
  if (!most && fields.Find("max_window_layers")) most = 0;
  if (fields.IsA(config_families::kWindowInEven)) {
    return (std::min(most.value_or(28), layers) + 1) / 2;
  }
  for (const config_families::FullFirst& one : config_families::kFullFirst) {
    if (!most && fields.IsA({&one.family, 1})) most = one.layers;
  }
  if (!most) return std::nullopt;
  return layers - std::min(*most, layers);
}

// Returns the number of layers that attend within a window. If the config or
// the family states a period P, every P-th layer attends to all tokens and has
// no window. If P is 1, no layer has a window. If there is no period, the first
// `max_window_layers` layers have no window.
int64_t WindowedByPattern(ConfigFields& fields, int64_t layers) {
  // In MiMo-V2, 1 marks a layer with a window, and 0 a layer without a window.
  const auto marks = fields.Find("hybrid_layer_pattern");
  if (marks && marks->IsArray()) return Marked(*marks);
  const auto written = fields.Find("sliding_window_pattern");
  if (written && written->IsString()) {
    const auto local = LocalLayers(written->string(), layers);
    if (local) return *local;
  }
  std::optional<int64_t> period = fields.Count(kWindowPattern).value;
  bool rounds_up = false;
  for (const config_families::Period& every : config_families::kSeesAll) {
    if (!fields.IsA({&every.family, 1})) continue;
    if (!period) period = every.layers;
    rounds_up = every.rounds_up;
  }
  if (period) {
    const int64_t rest = rounds_up && layers % *period != 0 ? 1 : 0;
    return layers - layers / *period - rest;
  }
  return WindowedAfterFirst(fields, layers).value_or(layers);
}

// Counts the layers that use the keys and values of another layer. In Gemma 3n
// these are the last layers. With the cross-layer attention of Hunyuan-Large,
// these are all layers except every F-th layer, where F is `cla_share_factor`.
// `kinds` lists the kinds of the layers, if the config states them.
void ReadBorrowing(ConfigFields& fields, const std::optional<JsonValue>& kinds,
                   ModelConfig& config) {
  const int64_t layers = *config.layers;
  const std::optional<int64_t> group = fields.Count("cla_share_factor").value;
  if (group && fields.IsTrue("use_cla").value_or(false)) {
    config.borrowing_layers = layers - (layers + *group - 1) / *group;
    return;
  }
  const std::optional<int64_t> last =
      fields.Count("num_kv_shared_layers").value;
  if (!last || *last >= layers) return;
  config.borrowing_layers = *last;
  if (!config.windowed_layers) return;
  if (!kinds || !kinds->IsArray()) {
    config.borrowing_windowed = *config.windowed_layers * *last / layers;
    return;
  }
  int64_t at = 0, windowed = 0;
  for (const JsonValue kind : kinds->items()) {
    const bool sliding =
        kind.IsString() && kind.string() == "sliding_attention";
    if (at >= layers - *last && sliding) ++windowed;
    ++at;
  }
  config.borrowing_windowed = windowed;
}

// Lists what each layer keeps. The keys are those by which the functions above
// count the layers. A list that does not have the same counts is dropped.
class KeptList {
 public:
  KeptList(ConfigFields& fields, const ModelConfig& config)
      : fields_(fields), config_(config), layers_(*config.layers) {}

  // `kinds` and `pattern` state the kinds of the layers, if the config does.
  std::vector<KeptTokens> List(const std::optional<JsonValue>& kinds,
                               const std::optional<JsonValue>& pattern) {
    constexpr int64_t kMostListed = 10'000;
    if (layers_ > kMostListed || config_.has_encoder) return {};
    kept_.assign(AsIndex(layers_), KeptTokens::kAll);
    const bool listed = kinds && kinds->IsArray();
    const bool known = listed                           ? ByKinds(*kinds)
                       : pattern && pattern->IsString() ? ByPattern(*pattern)
                                                        : ByPeriod();
    if (!known) return {};
    Borrow();
    return HasCounts() ? std::move(kept_) : std::vector<KeptTokens>{};
  }

 private:
  bool HasWindows() const {
    return config_.sliding_window || config_.attention_chunk;
  }
  // Sets the layers for which `has(layer)` is true.
  template <class Has>
  void Set(KeptTokens what, const Has& has) {
    for (int64_t i = 0; i < layers_; ++i) {
      if (has(i)) kept_[AsIndex(i)] = what;
    }
  }

  bool ByKinds(const JsonValue& kinds) {
    if (static_cast<int64_t>(kinds.size()) != layers_) return false;
    size_t at = 0;
    for (const JsonValue kind : kinds.items()) {
      const std::string_view name = kind.IsString() ? kind.string() : "";
      const bool sliding =
          name == "sliding_attention" || name == "chunked_attention";
      // A `hybrid` layer of Zamba keeps keys and values and a state.
      if (name == "hybrid") return false;
      const bool full = name == "full_attention" || name == "attention";
      if (!full) {
        kept_[at] = !sliding       ? KeptTokens::kState
                    : HasWindows() ? KeptTokens::kWindow
                                   : KeptTokens::kAll;
      }
      ++at;
    }
    return true;
  }

  // Reads the pattern of Nemotron-H: `*` is a layer with attention, `M` one
  // with a mixer, and any other letter one that keeps nothing.
  bool ByPattern(const JsonValue& pattern) {
    const std::string_view text = pattern.string();
    if (static_cast<int64_t>(text.size()) != layers_) return false;
    Set(KeptTokens::kNone, [&](int64_t i) { return text[AsIndex(i)] != '*'; });
    Set(KeptTokens::kState, [&](int64_t i) { return text[AsIndex(i)] == 'M'; });
    return true;
  }

  // Returns for each layer whether a list has a number other than 0 there.
  // Returns an empty list if it has not one integer for each layer.
  std::vector<bool> Marks(std::string_view key) {
    std::vector<bool> out;
    const auto list = fields_.Find(key);
    if (!list || !list->IsArray()) return out;
    for (const JsonValue one : list->items()) {
      if (one.kind() != JsonKind::kInteger) return {};
      out.push_back(one.integer() != 0);
    }
    return static_cast<int64_t>(out.size()) == layers_ ? out
                                                       : std::vector<bool>{};
  }

  bool ByPeriod() {
    if (config_.attention_layers && *config_.attention_layers != layers_) {
      const std::vector<bool> marks = Marks("attn_type_list");
      std::optional<int64_t> every =
          fields_.Count("full_attention_interval").value;
      if (!every && fields_.IsA(config_families::kAttentionInFourth)) every = 4;
      if (!every && marks.empty()) return false;
      Set(KeptTokens::kState, [&](int64_t i) {
        return marks.empty() ? (i + 1) % *every != 0 : !marks[AsIndex(i)];
      });
    }
    const int64_t windowed = config_.windowed_layers.value_or(0);
    if (!HasWindows() || windowed == 0) return true;
    if (windowed == layers_) {
      Set(KeptTokens::kWindow, [](int64_t) { return true; });
      return true;
    }
    // Layers with linear attention have no window.
    if (config_.attention_layers && *config_.attention_layers != layers_) {
      return false;
    }
    return ByWindow();
  }

  bool ByWindow() {
    const bool unrotated = fields_.IsA(config_families::kWindowUnrotated);
    if (config_.attention_chunk || unrotated) {
      const std::vector<bool> marks = Marks("no_rope_layers");
      const int64_t period =
          fields_.Count("no_rope_layer_interval").value.value_or(4);
      Set(KeptTokens::kWindow, [&](int64_t i) {
        const bool rotates =
            marks.empty() ? (i + 1) % period != 0 : marks[AsIndex(i)];
        return rotates != unrotated;
      });
      return true;
    }
    if (fields_.Has("hybrid_layer_pattern")) {
      const std::vector<bool> marks = Marks("hybrid_layer_pattern");
      if (marks.empty()) return false;
      Set(KeptTokens::kWindow, [&](int64_t i) { return marks[AsIndex(i)]; });
      return true;
    }
    const auto written = fields_.Find("sliding_window_pattern");
    if (written && written->IsString()) {
      const std::string_view text = written->string();
      if (text.empty()) return false;
      const int64_t length = std::ssize(text);
      Set(KeptTokens::kWindow, [&](int64_t i) {
        return text[AsIndex(i % length)] == 'L' && i != layers_ - 1;
      });
      return true;
    }
    std::optional<int64_t> period = fields_.Count(kWindowPattern).value;
    for (const config_families::Period& every : config_families::kSeesAll) {
      if (!fields_.IsA({&every.family, 1})) continue;
      // These families differ in which layer of a group attends to all tokens.
      if (every.rounds_up) return false;
      if (!period) period = every.layers;
    }
    if (period) {
      Set(KeptTokens::kWindow,
          [&](int64_t i) { return (i + 1) % *period != 0; });
      return true;
    }
    if (fields_.IsA(config_families::kWindowInEven)) return false;
    const int64_t first = layers_ - *config_.windowed_layers;
    Set(KeptTokens::kWindow, [&](int64_t i) { return i >= first; });
    return true;
  }

  // Marks the layers that attend to the keys and values of another layer
  // (ReadBorrowing).
  void Borrow() {
    const int64_t borrowing = config_.borrowing_layers.value_or(0);
    if (borrowing == 0) return;
    const std::optional<int64_t> group =
        fields_.Count("cla_share_factor").value;
    const bool cross = group && fields_.IsTrue("use_cla").value_or(false);
    Set(KeptTokens::kNone, [&](int64_t i) {
      return cross ? i % *group != 0 : i >= layers_ - borrowing;
    });
  }

  bool HasCounts() const {
    const auto count = [&](KeptTokens what) {
      return static_cast<int64_t>(std::count(kept_.begin(), kept_.end(), what));
    };
    const int64_t attending = config_.attention_layers.value_or(layers_) -
                              config_.borrowing_layers.value_or(0);
    const int64_t windowed = HasWindows()
                                 ? config_.windowed_layers.value_or(attending) -
                                       config_.borrowing_windowed.value_or(0)
                                 : 0;
    return count(KeptTokens::kWindow) == windowed &&
           count(KeptTokens::kAll) == attending - windowed;
  }

  ConfigFields& fields_;
  const ModelConfig& config_;
  const int64_t layers_;
  std::vector<KeptTokens> kept_;
};

void ReadLinearAttention(ConfigFields& fields, ModelConfig& config) {
  const auto key_heads = fields.Count("linear_num_key_heads").value;
  const auto value_heads = fields.Count("linear_num_value_heads").value;
  const auto key_dim = fields.Count("linear_key_head_dim").value;
  const auto value_dim = fields.Count("linear_value_head_dim").value;
  const auto kernel = fields.Count("linear_conv_kernel_dim").value;
  if (key_heads && value_heads && key_dim && value_dim && kernel) {
    config.linear_attention = LinearAttention{*key_heads, *value_heads,
                                              *key_dim, *value_dim, *kernel};
  }
}

}  // namespace

void ReadLayerKinds(ConfigFields& fields, ModelConfig& config) {
  config.has_encoder = fields.IsTrue("is_encoder_decoder").value_or(false) ||
                       fields.IsA(config_families::kEncoderDecoders) ||
                       fields.Find("encoder_layers").has_value();
  config.causal = !fields.IsA(config_families::kBidirectional) ||
                  fields.IsTrue("is_decoder").value_or(false);
  if (fields.IsA(config_families::kWithoutAttention)) {
    config.attention_layers = 0;
    return;
  }
  if (!config.layers) return;
  ReadChunks(fields, config);
  auto kinds = fields.Find("layer_types");
  if (!kinds) kinds = fields.Find("layers_block_type");
  const auto pattern = fields.Find("hybrid_override_pattern");
  if (kinds && kinds->IsArray()) {
    ReadLayerTypes(*kinds, config);
  } else if (pattern && pattern->IsString()) {
    const std::string_view text = pattern->string();
    config.attention_layers = std::count(text.begin(), text.end(), '*');
  } else {
    ReadAttentionLayers(fields, config);
  }
  if (config.sliding_window && !config.windowed_layers) {
    config.windowed_layers = WindowedByPattern(fields, *config.layers);
  }
  if (config.windowed_layers && config.attention_layers) {
    config.windowed_layers =
        std::min(*config.windowed_layers, *config.attention_layers);
  }
  ReadBorrowing(fields, kinds, config);
  ReadLinearAttention(fields, config);
  config.kept = KeptList(fields, config).List(kinds, pattern);
}

}  // namespace shardc
