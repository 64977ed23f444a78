// Reads objects of a config.json that describe a tower. A tower's config has a
// number of heads and a width, under the keys that its class uses:
//
//   "vision_config": {"num_heads": 16, "embed_dim": 1280, "hidden_size": 3584}
//     ->  16 heads of 80, width 1280 (3584 is the language model's width)
//   "audio_config": {"encoder_attention_heads": 20, "d_model": 1280}
//     ->  20 heads of 64, width 1280
#include "parse/config_parts.h"

#include <array>
#include <memory>
#include <span>
#include <string_view>

#include "source/finding.h"
#include "source/json.h"
#include "source/list.h"

namespace shardc {
namespace {

using Key = std::string_view;

constexpr std::array<Key, 6> kTowerHeads = {"num_attention_heads",
                                            "encoder_attention_heads",
                                            "num_heads",
                                            "attention_heads",
                                            "n_head",
                                            "n_heads"};
constexpr std::array<Key, 2> kTowerKvHeads = {"num_key_value_heads",
                                              "num_kv_heads"};
constexpr std::array<Key, 2> kTowerHeadDim = {"head_dim", "attention_head_dim"};
constexpr std::array<Key, 6> kTowerWidth = {
    "embed_dim", "hidden_size", "d_model", "width", "n_embd", "dim"};
// The configs of language models, which are no towers, and the objects in which
// a model has the configs of its parts.
constexpr std::array<Key, 6> kLanguageConfigs = {
    "text_config",   "llm_config", "language_config",
    "talker_config", "decoder",    "decoder_config"};
constexpr std::array<Key, 2> kOuterConfigs = {"thinker_config", "model_config"};
constexpr int64_t kMostTowerSize = int64_t{1} << 20;

std::optional<int64_t> TowerSize(JsonValue object, std::span<const Key> keys) {
  for (const Key key : keys) {
    const auto value = object.Find(key);
    if (value && value->kind() == JsonKind::kInteger && value->integer() >= 1 &&
        value->integer() <= kMostTowerSize) {
      return value->integer();
    }
  }
  return std::nullopt;
}

std::optional<TowerConfig> TowerOf(JsonMember member) {
  const auto heads = TowerSize(member.value, kTowerHeads);
  const auto width = TowerSize(member.value, kTowerWidth);
  if (!heads || !width) return std::nullopt;
  auto head_dim = TowerSize(member.value, kTowerHeadDim);
  if (!head_dim && *width % *heads == 0) head_dim = *width / *heads;
  if (!head_dim) return std::nullopt;
  return TowerConfig{std::string(member.name()), *heads,
                     TowerSize(member.value, kTowerKvHeads).value_or(*heads),
                     *head_dim, *width};
}

void ReadTowers(JsonValue object, std::vector<TowerConfig>& out) {
  for (const JsonMember member : object.members()) {
    if (!member.value.IsObject() || IsAmong(member.name(), kLanguageConfigs))
      continue;
    if (IsAmong(member.name(), kOuterConfigs)) {
      ReadTowers(member.value, out);
    } else if (auto tower = TowerOf(member)) {
      out.push_back(std::move(*tower));
    }
  }
}

// Reads whether a config of compressed-tensors reorders the inputs. With
// `actorder: static` (or `weight`) the stored order is that of the inputs.
void ReadOrderOfGroups(JsonValue groups, ConfigParts& out) {
  for (const JsonMember group : groups.members()) {
    const auto weights =
        group.value.IsObject() ? group.value.Find("weights") : std::nullopt;
    if (!weights || !weights->IsObject()) continue;
    const auto order = weights->Find("actorder");
    const bool reorders =
        order && ((order->IsString() && order->string() == "group") ||
                  (order->kind() == JsonKind::kBool && order->boolean()));
    out.act_order = out.act_order.value_or(false) || reorders;
    if (reorders) out.act_order_setting = "actorder group";
  }
}

void ReadOrder(JsonValue quantisation, ConfigParts& out) {
  const auto described = quantisation.Find("desc_act");
  if (described && described->kind() == JsonKind::kBool) {
    out.act_order = described->boolean();
    out.act_order_setting =
        std::string("desc_act ") + (*out.act_order ? "true" : "false");
    return;
  }
  const auto groups = quantisation.Find("config_groups");
  if (groups && groups->IsObject()) ReadOrderOfGroups(*groups, out);
}

}  // namespace

ConfigParts ReadConfigParts(const ModelConfig& model) {
  ConfigParts out;
  if (model.source == nullptr) return out;
  Findings ignored;
  const auto document = JsonDocument::Parse(model.source, ignored);
  if (document == nullptr || !document->root().IsObject()) return out;
  ReadTowers(document->root(), out.towers);
  const auto quantisation = document->root().Find("quantization_config");
  if (quantisation && quantisation->IsObject()) ReadOrder(*quantisation, out);
  return out;
}

}  // namespace shardc
