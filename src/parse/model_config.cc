// Reads the structure of a model from its config.json. Families name the same
// number differently; the tables below list the names, the most common first.
// A default that only a family's code knows (`n_inner: null` means four times
// the hidden size) is filled in if all releases of the family agree on it.
//
//   {"model_type": "gpt2", "n_head": 12, "n_embd": 768}
//     ->  heads 12, hidden 768, intermediate 3072
#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "parse/manifest_leaf.h"
#include "parse/model_document.h"
#include "parse/project.h"
#include "source/json.h"

namespace shardc {
namespace {

using Key = std::string_view;
using Number = std::optional<int64_t>;

constexpr std::array<Key, 3> kNested = {"text_config", "llm_config",
                                        "language_config"};
constexpr std::array<Key, 6> kHeads = {"num_attention_heads",
                                       "n_head",
                                       "num_heads",
                                       "n_heads",
                                       "decoder_attention_heads",
                                       "encoder_attention_heads"};
constexpr std::array<Key, 5> kKvHeads = {"num_key_value_heads", "num_kv_heads",
                                         "n_head_kv", "multi_query_group_num",
                                         "n_kv_heads"};
constexpr std::array<Key, 4> kHeadDim = {"head_dim", "d_kv", "kv_channels",
                                         "attention_head_dim"};
constexpr std::array<Key, 5> kHidden = {"hidden_size", "n_embd", "n_embed",
                                        "d_model", "dim"};
constexpr std::array<Key, 7> kIntermediate = {
    "intermediate_size_mlp", "intermediate_size", "n_inner", "ffn_dim", "d_ff",
    "ffn_hidden_size",       "decoder_ffn_dim"};
constexpr std::array<Key, 5> kLayers = {
    "num_hidden_layers", "n_layer", "num_layers", "n_layers", "decoder_layers"};
constexpr std::array<Key, 2> kVocab = {"vocab_size", "padded_vocab_size"};
constexpr std::array<Key, 4> kExperts = {"num_local_experts", "num_experts",
                                         "n_routed_experts", "moe_num_experts"};
constexpr std::array<Key, 3> kStateGroups = {"n_groups", "mamba_n_groups",
                                             "ngroups"};
constexpr std::array<Key, 4> kExpertsPerToken = {
    "num_experts_per_tok", "experts_per_token", "num_experts_per_token",
    "moe_top_k"};
constexpr std::array<Key, 1> kMoeIntermediate = {"moe_intermediate_size"};
constexpr std::array<Key, 2> kWindow = {"sliding_window",
                                        "sliding_window_size"};
constexpr std::array<Key, 6> kPositions = {
    "max_position_embeddings", "n_positions", "n_ctx",
    "max_target_positions",    "seq_length",  "max_sequence_length"};

constexpr std::array<Key, 4> kAttentionDropout = {
    "attention_dropout", "attn_pdrop", "attn_dropout_prob",
    "attention_probs_dropout_prob"};

constexpr std::array<Key, 3> kHiddenDropout = {"resid_pdrop", "hidden_dropout",
                                               "hidden_dropout_prob"};

// Families whose code decides which layers attend within a window.
constexpr std::array<Key, 1> kEverySecondSeesAll = {"gemma2"};
constexpr std::array<Key, 2> kEverySixthSeesAll = {"gemma3", "gemma3_text"};
constexpr std::array<Key, 7> kEncoderDecoders = {
    "t5", "mt5", "umt5", "longt5", "whisper", "bart", "clip"};

constexpr std::array<Key, 2> kRopeBase = {"rope_theta", "rotary_emb_base"};

// Families without a scale of attention scores, and with attention sinks.
constexpr std::array<Key, 4> kUnscaled = {"t5", "mt5", "umt5", "longt5"};
constexpr std::array<Key, 1> kSinks = {"gpt_oss"};
// The ranges that settings files have.
constexpr double kLeastScale = 1e-6;
constexpr double kMostScale = 1e6;
constexpr double kLeastCap = 1e-3;

// Families whose config class ties the embeddings by default. Falcon's does
// too, but its published checkpoints hold both tensors.
constexpr std::array<Key, 9> kTiedByDefault = {
    "gpt2",  "gemma", "gemma2", "gemma3", "gemma3_text",
    "bloom", "opt",   "t5",     "whisper"};
// Families whose feed-forward width is four times the hidden one unless
// the config has another.
constexpr std::array<Key, 8> kFourfold = {
    "gpt2",        "gptj",       "bloom",           "falcon",
    "gpt_bigcode", "RefinedWeb", "RefinedWebModel", "mixformer-sequential"};

bool Holds(std::span<const Key> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

class ModelConfigReader {
 public:
  ModelConfigReader(const JsonDocument& document, Findings& findings)
      : root_(document.root()), findings_(findings) {
    for (Key key : kNested) {
      const auto nested = root_.Find(key);
      if (nested && nested->IsObject()) {
        nested_ = nested;
        break;
      }
    }
  }

  ModelConfig Read() {
    ReadType();
    config_.heads = First(kHeads);
    config_.kv_heads = First(kKvHeads);
    config_.hidden = First(kHidden);
    config_.layers = First(kLayers);
    config_.vocab = First(kVocab);
    config_.experts = First(kExperts);
    config_.experts_per_token = First(kExpertsPerToken);
    config_.state_groups = First(kStateGroups);
    config_.moe_intermediate = First(kMoeIntermediate);
    config_.max_positions = First(kPositions);
    if (IsTrue("use_sliding_window").value_or(true)) {
      config_.sliding_window = First(kWindow);
    }
    ReadIntermediate();
    ReadAttention();
    ReadLayerKinds();
    ReadScale();
    ReadRope();
    ReadWeights();
    ReadTied();
    ReadQuantisation();
    return std::move(config_);
  }

 private:
  // The nested language model's config has priority over the outer one.
  std::optional<JsonValue> Find(std::string_view key) const {
    if (nested_) {
      const auto inner = nested_->Find(key);
      if (inner && !inner->IsNull()) return inner;
    }
    const auto outer = root_.Find(key);
    if (outer && !outer->IsNull()) return outer;
    return std::nullopt;
  }

  // Returns a positive integer. Values that mean "none" (null, 0, -1, false),
  // and lists by layer, count as absent.
  Number Get(std::string_view key) {
    const auto value = Find(key);
    if (!value) return std::nullopt;
    switch (value->kind()) {
      case JsonKind::kInteger:
        if (value->integer() > 0) return value->integer();
        return std::nullopt;
      case JsonKind::kBool:
      case JsonKind::kArray:
        return std::nullopt;
      default:
        findings_.Add(code::kNumber, value->place(),
                      "`" + std::string(key) + "` is " + DescribeJson(*value) +
                          ", not an integer");
        return std::nullopt;
    }
  }

  Number First(std::span<const Key> names) {
    for (Key name : names) {
      if (const Number value = Get(name)) return value;
    }
    return std::nullopt;
  }

  std::optional<bool> IsTrue(std::string_view key) const {
    const auto value = Find(key);
    if (!value || value->kind() != JsonKind::kBool) return std::nullopt;
    return value->boolean();
  }

  void ReadType() {
    const auto outer = root_.Find("model_type");
    if (outer && outer->IsString()) config_.model_type = outer->string();
  }

  bool IsA(std::span<const Key> families) const {
    if (Holds(families, config_.model_type)) return true;
    const auto inner = nested_ ? nested_->Find("model_type") : std::nullopt;
    return inner && inner->IsString() && Holds(families, inner->string());
  }

  void ReadIntermediate() {
    config_.intermediate = First(kIntermediate);
    // Llama 4: `intermediate_size` is the experts', and dense layers have a key
    // of their own.
    if (Get("intermediate_size_mlp") && !config_.moe_intermediate) {
      config_.moe_intermediate = Get("intermediate_size");
    }
    // The first Qwen's size is that of the gate and the up projection together.
    if (config_.model_type == "qwen" && config_.intermediate) {
      *config_.intermediate /= 2;
    }
    if (!config_.intermediate && config_.hidden && IsA(kFourfold)) {
      int64_t width = 0;
      if (!__builtin_mul_overflow(*config_.hidden, int64_t{4}, &width)) {
        config_.intermediate = width;
      }
    }
  }

  void ReadAttention() {
    const bool multi_query =
        IsTrue("multi_query").value_or(false) &&
        !IsTrue("new_decoder_architecture").value_or(false);
    if (multi_query && !Find("multi_query_group_num")) config_.kv_heads = 1;
    if (!config_.kv_heads) config_.kv_heads = config_.heads;
    // Latent attention: a head is the concatenation of an unrotated and a
    // rotated part.
    config_.latent_rank = Get("kv_lora_rank");
    if (config_.latent_rank) {
      config_.latent_rope_dim = Get("qk_rope_head_dim");
      config_.latent_value_dim = Get("v_head_dim");
    }
    const Number plain = Get("qk_nope_head_dim");
    const Number rotated = Get("qk_rope_head_dim");
    int64_t width = 0;
    if (plain && rotated && !__builtin_add_overflow(*plain, *rotated, &width)) {
      config_.head_dim = width;
      return;
    }
    config_.head_dim = First(kHeadDim);
    if (!config_.head_dim && config_.hidden && config_.heads &&
        *config_.hidden % *config_.heads == 0) {
      config_.head_dim = *config_.hidden / *config_.heads;
    }
  }

  // Lists by layer have priority over patterns, and patterns over a family's
  // defaults.
  void ReadLayerKinds() {
    config_.has_encoder = IsTrue("is_encoder_decoder").value_or(false) ||
                          IsA(kEncoderDecoders) ||
                          Find("encoder_layers").has_value();
    if (!config_.layers) return;
    const auto kinds = Find("layer_types");
    const auto pattern = Find("hybrid_override_pattern");
    if (kinds && kinds->IsArray()) {
      ReadLayerTypes(*kinds);
    } else if (pattern && pattern->IsString()) {
      const std::string_view text = pattern->string();
      config_.attention_layers = std::count(text.begin(), text.end(), '*');
    }
    if (config_.sliding_window && !config_.windowed_layers) {
      config_.windowed_layers = WindowedByPattern(*config_.layers);
    }
  }

  void ReadLayerTypes(const JsonValue& kinds) {
    int64_t windowed = 0, attention = 0;
    for (const JsonValue kind : kinds.items()) {
      const std::string_view name = kind.IsString() ? kind.string() : "";
      const bool sliding =
          name == "sliding_attention" || name == "chunked_attention";
      windowed += sliding ? 1 : 0;
      attention += sliding || name == "full_attention" ? 1 : 0;
    }
    if (attention == 0) return;
    if (attention != config_.layers) config_.attention_layers = attention;
    if (config_.sliding_window) config_.windowed_layers = windowed;
  }

  // Every P-th layer attends to all tokens.
  int64_t WindowedByPattern(int64_t layers) {
    if (const Number pattern = Get("sliding_window_pattern")) {
      return *pattern > 1 ? layers - layers / *pattern : layers;
    }
    if (IsA(kEverySecondSeesAll)) return (layers + 1) / 2;
    if (IsA(kEverySixthSeesAll)) return layers - layers / 6;
    if (const Number full = Get("max_window_layers")) {
      return layers - std::min(*full, layers);
    }
    return layers;
  }

  // Returns a real above 0; values that mean "none" count as absent.
  std::optional<double> GetReal(std::string_view key) {
    const auto value = Find(key);
    return value ? RealOf(*value, key) : std::nullopt;
  }

  std::optional<double> RealOf(const JsonValue& value, std::string_view key) {
    switch (value.kind()) {
      case JsonKind::kInteger:
      case JsonKind::kUnsigned:
      case JsonKind::kReal:
        if (value.real() > 0) return value.real();
        return std::nullopt;
      case JsonKind::kString:
      case JsonKind::kObject:
        findings_.Add(code::kNumber, value.place(),
                      "`" + std::string(key) + "` is " + DescribeJson(value) +
                          ", not a number");
        return std::nullopt;
      default:
        return std::nullopt;
    }
  }

  void UseScale(double scale, std::string_view key, const JsonValue& value) {
    const Place place = value.place();
    const std::string text(
        place.source->text().substr(place.begin, place.end - place.begin));
    if (scale >= kLeastScale && scale <= kMostScale) {
      config_.softmax_scale = scale;
      config_.softmax_scale_source = std::string(key) + " " + text;
      return;
    }
    findings_.Add(code::kNumber, place,
                  "`" + std::string(key) + "` is `" + text +
                      "`, a softmax scale out of range",
                  "a scale is between 1e-6 and 1e6");
  }

  void ReadScale() {
    if (const auto dim = GetReal("query_pre_attn_scalar")) {
      UseScale(1 / std::sqrt(*dim), "query_pre_attn_scalar",
               *Find("query_pre_attn_scalar"));
    } else if (const auto multiplier = GetReal("attention_multiplier")) {
      UseScale(*multiplier, "attention_multiplier",
               *Find("attention_multiplier"));
    } else if (IsA(kUnscaled)) {
      config_.softmax_scale = 1;
      config_.softmax_scale_source = "model_type " + config_.model_type;
    } else if (!IsTrue("scale_attn_weights").value_or(true)) {
      config_.softmax_scale = 1;
      config_.softmax_scale_source = "scale_attn_weights false";
    } else {
      ReadYarnScale();
    }
  }

  // Latent attention under yarn (DeepSeek): 1/sqrt(head_dim) times the square
  // of 0.1 mscale_all_dim ln(factor) + 1.
  void ReadYarnScale() {
    const auto scaling = Find("rope_scaling");
    if (!Find("qk_nope_head_dim") || !scaling || !scaling->IsObject() ||
        !config_.head_dim) {
      return;
    }
    const auto all = scaling->Find("mscale_all_dim");
    const auto times = scaling->Find("factor");
    if (!all || !times) return;
    const auto mscale = RealOf(*all, "mscale_all_dim");
    const auto factor = RealOf(*times, "factor");
    if (!mscale || !factor || *factor <= 1) return;
    const double m = 0.1 * *mscale * std::log(*factor) + 1;
    UseScale(m * m / std::sqrt(static_cast<double>(*config_.head_dim)),
             "mscale_all_dim", *all);
  }

  // Reads a number of `from`, or else of the file.
  std::optional<double> RealIn(const std::optional<JsonValue>& from, Key key) {
    const auto value = from ? from->Find(key) : std::nullopt;
    return value ? RealOf(*value, key) : std::nullopt;
  }

  // Recent files have all of it in `rope_parameters`.
  void ReadRope() {
    auto scaling = Find("rope_scaling");
    auto all = Find("rope_parameters");
    if (all && !all->IsObject()) all.reset();
    if (!scaling && all) scaling = all;
    if (scaling && !scaling->IsObject()) scaling.reset();
    RopeConfig rope;
    std::optional<double> base = RealIn(all, "rope_theta");
    for (Key key : kRopeBase) {
      if (!base) base = GetReal(key);
    }
    if (!base && !scaling) return;
    rope.base = base.value_or(rope.base);
    if (scaling) ReadRopeScaling(*scaling, rope);
    if (rope.base > 1 && std::isfinite(rope.base)) {
      config_.rope = std::move(rope);
      return;
    }
    const auto said = Find("rope_theta");
    findings_.Add(code::kNumber, (said ? *said : root_).place(),
                  "the model's rotary base is not above 1",
                  "`rope_theta` is 10000 or more");
  }

  void ReadRopeScaling(const JsonValue& scaling, RopeConfig& rope) {
    for (Key key : {Key("rope_type"), Key("type")}) {
      const auto kind = scaling.Find(key);
      if (kind && kind->IsString() && rope.scaling.empty()) {
        rope.scaling = kind->string();
      }
    }
    if (rope.scaling == "default") rope.scaling.clear();
    const auto set = [&](Key key, double& to) {
      if (const auto value = RealIn(scaling, key)) to = *value;
    };
    set("factor", rope.factor);
    rope.original_length =
        static_cast<double>(config_.max_positions.value_or(0));
    set("original_max_position_embeddings", rope.original_length);
    set("beta_fast", rope.beta_fast);
    set("beta_slow", rope.beta_slow);
    set("low_freq_factor", rope.low_frequency_factor);
    set("high_freq_factor", rope.high_frequency_factor);
    rope.attention_factor = RealIn(scaling, "attention_factor");
    if (const auto truncate = scaling.Find("truncate");
        truncate && truncate->kind() == JsonKind::kBool) {
      rope.truncate = truncate->boolean();
    }
    // DeepSeek scales the rotated part by the quotient of its two factors.
    const auto one = RealIn(scaling, "mscale");
    const auto every = RealIn(scaling, "mscale_all_dim");
    if (one && every && !rope.attention_factor) {
      const double log = rope.factor > 1 ? 0.1 * std::log(rope.factor) : 0;
      rope.attention_factor = (*one * log + 1) / (*every * log + 1);
    }
  }

  void ReadWeights() {
    config_.soft_cap = GetReal("attn_logit_softcapping");
    if (config_.soft_cap &&
        (*config_.soft_cap < kLeastCap || *config_.soft_cap > kMostScale)) {
      findings_.Add(code::kNumber, Find("attn_logit_softcapping")->place(),
                    "`attn_logit_softcapping` is a soft cap out of range",
                    "a cap is between 0.001 and 1e6");
    }
    for (Key key : kAttentionDropout) {
      if (!config_.attention_dropout) config_.attention_dropout = GetReal(key);
    }
    for (Key key : kHiddenDropout) {
      if (!config_.hidden_dropout) config_.hidden_dropout = GetReal(key);
    }
    config_.attention_sinks = IsA(kSinks);
  }

  void ReadTied() {
    const auto said = IsTrue("tie_word_embeddings");
    config_.tied_embeddings = said ? *said : IsA(kTiedByDefault);
  }

  // In a block [128, 128] the second size is along the input dimension.
  void ReadQuantisation() {
    const auto quantisation = root_.Find("quantization_config");
    if (!quantisation || !quantisation->IsObject()) return;
    const auto positive = [](const JsonValue& value) {
      return value.kind() == JsonKind::kInteger && value.integer() > 0;
    };
    if (const auto block = quantisation->Find("weight_block_size")) {
      if (!block->IsArray()) return;
      for (const JsonValue side : block->items()) {
        if (positive(side)) config_.quant_group = side.integer();
      }
      return;
    }
    const auto group = quantisation->Find("group_size");
    if (group && positive(*group)) {
      config_.quant_group = group->integer();
      return;
    }
    const auto method = quantisation->Find("quant_method");
    if (method && method->IsString() && method->string() == "mxfp4") {
      config_.quant_group = 32;  // OCP microscaling format
    }
  }

  JsonValue root_;
  std::optional<JsonValue> nested_;
  Findings& findings_;
  ModelConfig config_;
};

}  // namespace

std::optional<ModelConfig> ReadModelConfig(const std::string& path,
                                           Findings& findings) {
  const size_t before = findings.errors();
  const auto document = ReadModelDocument(path, findings);
  if (document == nullptr) return std::nullopt;
  ModelConfig config = ModelConfigReader(*document, findings).Read();
  config.source = document->source();
  if (findings.errors() > before) return std::nullopt;
  return config;
}

}  // namespace shardc
