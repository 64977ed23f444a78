// Reads the structure of a model from its config.json. Families use different
// keys for the same number, so the tables below list the keys in the order in
// which they are tried. Some defaults are only in a family's code. For example,
// in GPT-2 `n_inner: null` means four times the hidden size. Such a default is
// used if all releases of the family agree on it.
//
//   {"model_type": "gpt2", "n_head": 12, "n_embd": 768}
//     ->  heads 12, hidden 768, intermediate 3072
#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "parse/config_fields.h"
#include "parse/layer_kinds.h"
#include "parse/manifest.h"
#include "parse/operations.h"
#include "parse/project.h"
#include "source/json.h"
#include "source/work.h"

namespace shardc {
namespace {

using Key = std::string_view;
using Number = std::optional<int64_t>;

constexpr std::array<Key, 6> kHeads = {"num_attention_heads",
                                       "n_head",
                                       "num_heads",
                                       "n_heads",
                                       "decoder_attention_heads",
                                       "encoder_attention_heads"};
constexpr std::array<Key, 7> kKvHeads = {
    "num_key_value_heads",   "num_kv_heads", "n_head_kv",
    "multi_query_group_num", "n_kv_heads",   "num_attention_groups",
    "attn_config.kv_n_heads"};
constexpr std::array<Key, 5> kHeadDim = {"head_dim", "hidden_size_per_head",
                                         "attention_head_dim", "d_kv",
                                         "kv_channels"};
constexpr std::array<Key, 5> kHidden = {"hidden_size", "n_embd", "n_embed",
                                        "d_model", "dim"};
constexpr std::array<Key, 8> kIntermediate = {"intermediate_size_mlp",
                                              "intermediate_size",
                                              "n_inner",
                                              "ffn_dim",
                                              "d_ff",
                                              "ffn_hidden_size",
                                              "decoder_ffn_dim",
                                              "ffn_config.ffn_hidden_size"};
// The keys of the number of layers. The keys of the decoder's layers come
// first, because in a model with an encoder the other keys state the number of
// the encoder's layers.
constexpr std::array<Key, 6> kLayers = {"num_decoder_layers", "decoder_layers",
                                        "num_hidden_layers",  "n_layer",
                                        "num_layers",         "n_layers"};
constexpr std::array<Key, 3> kEncoderLayers = {
    "num_encoder_layers", "encoder_layers", "encoder_num_hidden_layers"};
constexpr std::array<Key, 2> kVocab = {"vocab_size", "padded_vocab_size"};
constexpr std::array<Key, 5> kExperts = {"num_local_experts", "num_experts",
                                         "n_routed_experts", "moe_num_experts",
                                         "ffn_config.moe_num_experts"};
constexpr std::array<Key, 3> kStateGroups = {"n_groups", "mamba_n_groups",
                                             "ngroups"};
constexpr std::array<Key, 8> kExpertsPerToken = {"num_experts_per_tok",
                                                 "experts_per_token",
                                                 "num_experts_per_token",
                                                 "moe_top_k",
                                                 "moe_topk",
                                                 "moe_k",
                                                 "ffn_config.moe_top_k",
                                                 "top_k_experts"};
constexpr std::array<Key, 1> kMoeIntermediate = {"moe_intermediate_size"};
constexpr std::array<Key, 3> kWindow = {"sliding_window", "sliding_window_size",
                                        "attention_window_size"};
constexpr std::array<Key, 6> kPositions = {
    "max_position_embeddings", "n_positions", "n_ctx",
    "max_target_positions",    "seq_length",  "max_sequence_length"};

constexpr std::array<Key, 4> kAttentionDropout = {
    "attention_dropout", "attn_pdrop", "attn_dropout_prob",
    "attention_probs_dropout_prob"};

constexpr std::array<Key, 3> kHiddenDropout = {"resid_pdrop", "hidden_dropout",
                                               "hidden_dropout_prob"};

// The lists of modules that are not quantised.
constexpr std::array<Key, 4> kUnquantised = {
    "ignore", "modules_to_not_convert", "ignored_layers", "exclude_modules"};

// The range of valid softmax scales. It is the same as for the settings of
// attention operations (parse/operations.cc).
constexpr double kLeastScale = 1e-6;
constexpr double kMostScale = 1e6;

class ModelConfigReader {
 public:
  ModelConfigReader(const JsonDocument& document, Findings& findings)
      : fields_(document.root(), findings), findings_(findings) {}

  ModelConfig Read() {
    ReadType();
    SizeFields read;
    read.heads = fields_.Size(kHeads);
    read.kv_heads = fields_.Size(kKvHeads);
    read.hidden = fields_.Size(kHidden);
    config_.heads = read.heads.value;
    config_.kv_heads = read.kv_heads.value;
    // Where layers differ, the lints take the number of a layer from shapes.
    if (!config_.heads) config_.heads = fields_.LargestInLayers(kHeads).value;
    if (config_.heads && !config_.kv_heads) {
      config_.kv_heads = fields_.LargestInLayers(kKvHeads).value;
    }
    config_.hidden = read.hidden.value;
    ReadLayers();
    config_.vocab = fields_.Size(kVocab).value;
    UseDefaults();
    const ConfigField experts = fields_.Count(kExperts);
    config_.experts = experts.value;
    read.experts_per_token = experts.value ? fields_.Number(kExpertsPerToken)
                                           : fields_.Count(kExpertsPerToken);
    if (!read.experts_per_token.value) {
      read.experts_per_token = fields_.EqualInLayers(kExpertsPerToken);
    }
    config_.experts_per_token = read.experts_per_token.value;
    config_.state_groups = fields_.Count(kStateGroups).value;
    config_.moe_intermediate = fields_.Count(kMoeIntermediate).value;
    if (!config_.moe_intermediate) {
      config_.moe_intermediate = fields_.EqualInLayers(kMoeIntermediate).value;
    }
    config_.max_positions = fields_.Count(kPositions).value;
    if (fields_.IsTrue("use_sliding_window")
            .value_or(!IsA(config_families::kWindowOnRequest))) {
      ReadWindow();
    }
    ReadIntermediate();
    ReadAttention(read);
    ReadLayerKinds(fields_, config_);
    ReadScale();
    config_.rope = ReadRope(fields_, config_.max_positions, findings_);
    ReadWeights();
    ReadTied();
    ReadQuantisation();
    if (!findings_.HasErrors()) {
      CheckModelSizes(config_, read, IsA(config_families::kRotating), fields_,
                      findings_);
    }
    return std::move(config_);
  }

 private:
  // Every key that states a number of layers is checked, because the tree has
  // them all.
  void ReadLayers() {
    config_.layers = fields_.Size(kLayers).value;
    const auto check = [&](std::span<const Key> keys) {
      for (const Key key : keys) {
        const auto value = fields_.Find(key);
        if (!value || value->kind() != JsonKind::kInteger) continue;
        Allows(kModelLayers, std::max<int64_t>(value->integer(), 0),
               "`" + std::string(key) + "` is", value->place(), findings_);
      }
    };
    check(kLayers);
    check(kEncoderLayers);
  }

  void ReadType() {
    const auto outer = fields_.root().Find("model_type");
    if (outer && outer->IsString()) config_.model_type = outer->string();
    if (outer && !outer->IsString())
      RefuseType("model_type", *outer, "a string", findings_);
  }

  bool IsA(std::span<const Key> families) const {
    return fields_.IsA(families);
  }

  // Returns the family of the language model. If the file describes a larger
  // model, this is the family of the nested language model.
  std::string_view Family() const {
    const auto inner =
        fields_.nested() ? fields_.nested()->Find("model_type") : std::nullopt;
    if (inner && inner->IsString()) return inner->string();
    return config_.model_type;
  }

  // Sets sizes that the config omits to the defaults of the family's class. The
  // default number of KV heads is not used if the config states null, which
  // means as many KV heads as heads.
  void UseDefaults() {
    defaults_ = config_families::DefaultsOf(Family());
    if (defaults_ == nullptr) return;
    const auto use = [](Number& to, int64_t size) {
      if (!to && size > 0) to = size;
    };
    if (!fields_.Has("num_key_value_heads")) {
      use(config_.kv_heads, defaults_->kv_heads);
    }
    if (!fields_.nested()) return;
    use(config_.heads, defaults_->heads);
    use(config_.hidden, defaults_->hidden);
    use(config_.layers, defaults_->layers);
    use(config_.vocab, defaults_->vocab);
  }

  void ReadWindow() {
    if (IsA(config_families::kLocalAttention)) {
      config_.sliding_window = Count("local_attention");
      if (!fields_.Has("local_attention")) config_.sliding_window = 128;
      if (config_.sliding_window && IsA(config_families::kHalfWindow)) {
        *config_.sliding_window =
            std::max<int64_t>(*config_.sliding_window / 2, 1);
      }
      return;
    }
    config_.sliding_window = fields_.Count(kWindow).value;
    const bool written = std::any_of(kWindow.begin(), kWindow.end(),
                                     [&](Key key) { return fields_.Has(key); });
    if (!written && defaults_ != nullptr && defaults_->window > 0) {
      config_.sliding_window = defaults_->window;
    }
  }

  void ReadIntermediate() {
    config_.intermediate = fields_.Size(kIntermediate).value;
    if (!config_.intermediate && fields_.nested() && defaults_ != nullptr &&
        defaults_->intermediate > 0) {
      config_.intermediate = defaults_->intermediate;
    }
    // In Llama 4, `intermediate_size` is the width of the experts. The width of
    // dense layers has another key.
    if (Count("intermediate_size_mlp") && !config_.moe_intermediate) {
      config_.moe_intermediate = Count("intermediate_size");
    }
    // In the first Qwen, `intermediate_size` is the sum of the widths of the
    // gate and the up projection.
    if (config_.model_type == "qwen" && config_.intermediate) {
      *config_.intermediate /= 2;
    }
    if (!config_.intermediate && config_.hidden &&
        IsA(config_families::kFourfold)) {
      config_.intermediate = 4 * *config_.hidden;
    }
  }

  void ReadAttention(SizeFields& read) {
    const bool multi_query =
        fields_.IsTrue("multi_query")
            .value_or(IsA(config_families::kMultiQuery)) &&
        !fields_.IsTrue("new_decoder_architecture").value_or(false);
    if (multi_query && !fields_.Find("multi_query_group_num")) {
      config_.kv_heads = 1;
      read.kv_heads = {};
    }
    if (!config_.kv_heads) config_.kv_heads = config_.heads;
    // In latent attention, a head is the concatenation of an unrotated and a
    // rotated part.
    config_.latent_rank = Count("kv_lora_rank");
    const auto part = [&](Key key) {
      return config_.latent_rank ? fields_.Size(key).value : Count(key);
    };
    const Number rotated = part("qk_rope_head_dim");
    const Number value = part("v_head_dim");
    if (config_.latent_rank) {
      config_.latent_rope_dim = rotated;
      config_.latent_value_dim = value;
      config_.index_dim = Count("index_head_dim");
    } else {
      config_.value_dim = value;
      ReadWindowedHeads();
    }
    const Number plain = part("qk_nope_head_dim");
    if (plain && rotated) {
      config_.head_dim = *plain + *rotated;
      return;
    }
    read.head_dim = fields_.Size(kHeadDim);
    config_.head_dim = read.head_dim.value;
    if (!config_.head_dim && defaults_ != nullptr && defaults_->head_dim > 0 &&
        !fields_.Has("head_dim")) {
      config_.head_dim = defaults_->head_dim;
    }
    const int64_t times = IsA(config_families::kTwiceWideHeads) ? 2 : 1;
    if (!config_.head_dim && config_.hidden && config_.heads &&
        times * *config_.hidden % *config_.heads == 0) {
      config_.head_dim = times * *config_.hidden / *config_.heads;
    }
    if (!IsA(config_families::kWideFullHeads)) return;
    ReadFullHeads();
  }

  // Reads the head sizes of Gemma 4's layers without a window. Recent versions
  // of transformers write them for each layer, with equal sizes for all layers:
  //
  //   "per_layer_config": {"5": {"head_dim": 512, "num_key_value_heads": 2}}
  void ReadFullHeads() {
    config_.full_head_dim = Count("global_head_dim");
    if (fields_.IsTrue("attention_k_eq_v").value_or(false)) {
      config_.full_kv_heads = Count("num_global_key_value_heads");
    }
    const auto layers = fields_.Find("per_layer_config");
    if (layers && layers->IsObject()) {
      for (const JsonMember layer : layers->members()) {
        if (!layer.value.IsObject()) continue;
        const auto use = [&](Key key, Number& to) {
          const auto value = layer.value.Find(key);
          if (value) to = fields_.CountOf(*value, key);
        };
        use("head_dim", config_.full_head_dim);
        use("num_key_value_heads", config_.full_kv_heads);
        break;
      }
    }
    if (!config_.full_head_dim) config_.full_head_dim = 512;
  }

  // Reads the head sizes of the layers with a window, if the config has
  // separate keys for these layers.
  void ReadWindowedHeads() {
    config_.windowed_heads = Count("swa_num_attention_heads");
    config_.windowed_kv_heads = Count("swa_num_key_value_heads");
    config_.windowed_head_dim = Count("swa_head_dim");
    config_.windowed_value_dim = Count("swa_v_head_dim");
    // If transformers wrote the config of MiMo-V2, it lacks the number of KV
    // heads of these layers. The number is twice that of the other layers.
    if (!config_.windowed_kv_heads && config_.kv_heads &&
        IsA(config_families::kTwiceWindowedKvHeads)) {
      config_.windowed_kv_heads = 2 * *config_.kv_heads;
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
    if (const auto dim = fields_.Real("query_pre_attn_scalar")) {
      UseScale(1 / std::sqrt(*dim), "query_pre_attn_scalar",
               *fields_.Find("query_pre_attn_scalar"));
    } else if (const auto multiplier = fields_.Real("attention_multiplier")) {
      UseScale(*multiplier, "attention_multiplier",
               *fields_.Find("attention_multiplier"));
    } else if (IsA(config_families::kUnscaled)) {
      config_.softmax_scale = 1;
      config_.softmax_scale_source = "model_type " + config_.model_type;
    } else if (!fields_.IsTrue("scale_attn_weights").value_or(true)) {
      config_.softmax_scale = 1;
      config_.softmax_scale_source = "scale_attn_weights false";
    } else {
      ReadYarnScale();
    }
  }

  // Sets the softmax scale of latent attention with yarn, as DeepSeek's code
  // does. The scale is 1/sqrt(head_dim) times (0.1 mscale_all_dim ln(factor) +
  // 1)^2.
  void ReadYarnScale() {
    auto scaling = fields_.Find("rope_scaling");
    if (!scaling) scaling = fields_.Find("rope_parameters");
    if (!fields_.Find("qk_nope_head_dim") || !scaling || !scaling->IsObject() ||
        !config_.head_dim) {
      return;
    }
    const auto all = scaling->Find("mscale_all_dim");
    const auto times = scaling->Find("factor");
    if (!all || !times) return;
    const auto mscale = fields_.RealOf(*all, "mscale_all_dim");
    const auto factor = fields_.RealOf(*times, "factor");
    if (!mscale || !factor || *factor <= 1) return;
    const double m = 0.1 * *mscale * std::log(*factor) + 1;
    UseScale(m * m / std::sqrt(static_cast<double>(*config_.head_dim)),
             "mscale_all_dim", *all);
  }

  void ReadWeights() {
    config_.soft_cap = fields_.Real("attn_logit_softcapping");
    if (config_.soft_cap &&
        (*config_.soft_cap < kLeastSoftCap || *config_.soft_cap > kMostScale)) {
      findings_.Add(code::kNumber,
                    fields_.Find("attn_logit_softcapping")->place(),
                    "`attn_logit_softcapping` is a soft cap out of range",
                    "a cap is between 0.001 and 1e6");
    }
    for (Key key : kAttentionDropout) {
      if (!config_.attention_dropout)
        config_.attention_dropout = fields_.Real(key);
    }
    for (Key key : kHiddenDropout) {
      if (!config_.hidden_dropout) config_.hidden_dropout = fields_.Real(key);
    }
    config_.attention_sinks = IsA(config_families::kSinks);
  }

  void ReadTied() {
    const auto said = fields_.IsTrue("tie_word_embeddings");
    config_.tied_embeddings =
        said ? *said : IsA(config_families::kTiedByDefault);
  }

  // Reads how many elements of quantised weights share a scale, along the input
  // and the output dimension.
  void ReadQuantisation() {
    const auto quantisation = fields_.root().Find("quantization_config");
    if (!quantisation || !quantisation->IsObject()) return;
    for (const Key key : kUnquantised) {
      ReadNames(*quantisation, key, config_.unquantised);
    }
    if (ReadBlock(*quantisation, "weight_block_size")) return;
    if (ReadGroups(*quantisation)) return;
    const auto group = quantisation->Find("group_size");
    if (group) config_.quant_group = fields_.CountOf(*group, "group_size");
    if (config_.quant_group) return;
    const auto method = quantisation->Find("quant_method");
    if (method && method->IsString() && method->string() == "mxfp4") {
      // The OCP microscaling format has one scale for 32 elements.
      config_.quant_group = 32;
    }
  }

  // Appends the texts of a list; nothing if the key has no list.
  static void ReadNames(JsonValue of, Key key, std::vector<std::string>& to) {
    const auto names = of.Find(key);
    if (!names || !names->IsArray()) return;
    for (const JsonValue name : names->items()) {
      if (name.IsString()) to.emplace_back(name.string());
    }
  }

  // Reads a block such as [128, 64]: its last size is along the input
  // dimension, and the first of two sizes is along the output dimension.
  // Returns false if the key is absent.
  bool ReadBlock(JsonValue of, Key key) {
    const auto block = of.Find(key);
    if (!block || block->IsNull()) return false;
    if (!block->IsArray()) return true;
    bool first = block->size() == 2;
    for (const JsonValue side : block->items()) {
      if (const Number size = fields_.CountOf(side, key)) {
        config_.quant_group = size;
        if (first) config_.quant_rows = *size;
      }
      first = false;
    }
    return true;
  }

  // Reads the groups of compressed-tensors and ModelOpt, each of which has the
  // block of some modules. If the groups differ, no block size is of all
  // weights. Returns false if the config has no such groups.
  bool ReadGroups(JsonValue quantisation) {
    const auto groups = quantisation.Find("config_groups");
    if (!groups || !groups->IsObject()) return false;
    std::set<Number> sizes;
    std::set<int64_t> rows;
    for (const JsonMember group : groups->members()) {
      const auto weights =
          group.value.IsObject() ? group.value.Find("weights") : std::nullopt;
      if (!weights || !weights->IsObject()) continue;
      config_.quant_group = std::nullopt;
      config_.quant_rows = 1;
      const auto size = weights->Find("group_size");
      if (!ReadBlock(*weights, "block_structure") && size) {
        config_.quant_group = fields_.CountOf(*size, "group_size");
      }
      sizes.insert(config_.quant_group);
      rows.insert(config_.quant_rows);
      QuantisedBlock& block = config_.quant_blocks.emplace_back();
      ReadNames(group.value, "targets", block.targets);
      block.columns = config_.quant_group.value_or(1);
      block.rows = config_.quant_rows;
    }
    if (sizes.size() > 1) config_.quant_group = std::nullopt;
    if (rows.size() > 1) config_.quant_rows = 1;
    return true;
  }

  Number Count(Key key) { return fields_.Count(key).value; }

  ConfigFields fields_;
  Findings& findings_;
  ModelConfig config_;
  // Defaults of the family.
  const config_families::Defaults* defaults_ = nullptr;
};

}  // namespace

std::optional<ModelConfig> ReadModelConfig(const JsonDocument& document,
                                           Findings& findings) {
  Findings own;
  ModelConfig config = ModelConfigReader(document, own).Read();
  config.source = document.source();
  const bool good = !own.HasErrors();
  findings.Append(std::move(own));
  return good ? std::optional(std::move(config)) : std::nullopt;
}

std::optional<ModelConfig> ReadModelConfig(const std::string& path,
                                           Findings& findings) {
  const auto document = ReadModelDocument(path, findings);
  if (document == nullptr) return std::nullopt;
  return ReadModelConfig(*document, findings);
}

}  // namespace shardc
