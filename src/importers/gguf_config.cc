// Translates metadata of GGUF files. Names of keys begin with the architecture:
//
//   general.architecture = llama       "model_type": "llama"
//   llama.attention.head_count = 32    "num_attention_heads": 32
//   llama.attention.head_count_kv = 8  "num_key_value_heads": 8
//
// Models whose layers differ (DeciLM, OpenELM) have an array of one number for
// each layer in place of a number.
#include "importers/gguf_config.h"

#include <algorithm>
#include <utility>

#include "importers/gguf_types.h"

namespace shardc {
namespace {

using enum gguf::ValueType;

struct Translated {
  std::string_view key;   // without the architecture
  std::string_view name;  // in a config.json
};
constexpr Translated kTranslated[] = {
    {"attention.head_count", "num_attention_heads"},
    {"attention.head_count_kv", "num_key_value_heads"},
    {"attention.key_length", "head_dim"},
    {"attention.value_length", "v_head_dim"},
    {"block_count", "num_hidden_layers"},
    {"context_length", "max_position_embeddings"},
    {"embedding_length", "hidden_size"},
    {"expert_count", "num_local_experts"},
    {"expert_feed_forward_length", "moe_intermediate_size"},
    {"expert_used_count", "num_experts_per_tok"},
    {"feed_forward_length", "intermediate_size"},
    {"vocab_size", "vocab_size"},
};
constexpr std::string_view kLatent = "attention.kv_lora_rank";
// Keys of models that have several kinds of layers begin with these.
constexpr std::string_view kMixed[] = {"attention.sliding_window",
                                       "attention.chunk",
                                       "attention.shared_kv_layers",
                                       "ssm.",
                                       "shortconv.",
                                       "wkv.",
                                       "encoder.",
                                       "decoder_block_count",
                                       "nextn_predict_layers"};

// More layers than this are not read.
constexpr uint64_t kMaxLayers = 4096;
constexpr int64_t kMaxSize = (int64_t{1} << 31) - 1;

uint64_t LittleEndian(std::string_view bytes) {
  uint64_t out = 0;
  for (size_t i = bytes.size(); i > 0; --i) {
    out = out << 8 | static_cast<unsigned char>(bytes[i - 1]);
  }
  return out;
}

// Returns the integers of a value, which is one or an array of them; an empty
// list for other values and for integers that are no size.
std::vector<int64_t> SizesOf(uint32_t type, std::string_view value) {
  uint64_t count = 1;
  if (type == kArray) {
    if (value.size() < 12) return {};
    type = static_cast<uint32_t>(LittleEndian(value.substr(0, 4)));
    count = LittleEndian(value.substr(4, 8));
    value.remove_prefix(12);
  }
  const bool integer = type <= kInt32 || type == kUint64 || type == kInt64;
  if (!integer || count > kMaxLayers) return {};
  const size_t bytes = gguf::kValueBytes[type];
  if (value.size() != count * bytes) return {};
  std::vector<int64_t> out;
  for (; !value.empty(); value.remove_prefix(bytes)) {
    const uint64_t one = LittleEndian(value.substr(0, bytes));
    if (one > kMaxSize) return {};
    out.push_back(static_cast<int64_t>(one));
  }
  return out;
}

bool AllEqual(const std::vector<int64_t>& values) {
  return std::all_of(values.begin(), values.end(),
                     [&](int64_t one) { return one == values.front(); });
}

}  // namespace

void GgufConfig::Take(std::string_view key, uint32_t type,
                      std::string_view value) {
  if (key == "general.architecture") {
    constexpr std::string_view kPlain =
        "abcdefghijklmnopqrstuvwxyz0123456789_-";
    if (type != kString || value.size() < 8) return;
    value.remove_prefix(8);
    if (value.find_first_not_of(kPlain) == value.npos) architecture_ = value;
    return;
  }
  const size_t dot = key.find('.');
  if (dot == key.npos) return;
  const std::string_view rest = key.substr(dot + 1);
  latent_ |= rest == kLatent;
  mixed_ |= std::any_of(std::begin(kMixed), std::end(kMixed),
                        [&](auto& one) { return rest.starts_with(one); });
  for (const Translated& one : kTranslated) {
    if (one.key != rest) continue;
    if (auto sizes = SizesOf(type, value); !sizes.empty()) {
      sizes_[one.name] = std::move(sizes);
    }
  }
}

std::string GgufConfig::Json() const {
  if (latent_ || !sizes_.contains("num_attention_heads")) return {};
  bool mixed = mixed_;
  std::string out = "{\"model_type\": \"" + architecture_ + '"';
  for (const auto& [name, all] : sizes_) {
    std::vector<int64_t> sizes = all;
    // Layers without heads have no attention.
    mixed |= std::erase(sizes, 0) > 0;
    if (sizes.empty()) continue;
    if (name == "num_hidden_layers") continue;
    out += ", \"" + std::string(name) + "\": ";
    if (AllEqual(sizes)) {
      out += std::to_string(sizes.front());
      continue;
    }
    char before = '[';
    for (const int64_t one : sizes) {
      out += before + std::to_string(one);
      before = ',';
    }
    out += ']';
  }
  const auto layers = sizes_.find("num_hidden_layers");
  if (!mixed && layers != sizes_.end() && layers->second.size() == 1) {
    out += ", \"num_hidden_layers\": " + std::to_string(layers->second.front());
  }
  return out + '}';
}

}  // namespace shardc
