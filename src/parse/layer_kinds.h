// Reads from a config.json which layers of a model have attention, and which
// layers attend only within a window.
#ifndef SHARDC_PARSE_LAYER_KINDS_H_
#define SHARDC_PARSE_LAYER_KINDS_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "model/project.h"
#include "parse/config_fields.h"

namespace shardc {

// Sets whether the model has an encoder and whether it is causal. Counts the
// layers with attention and the layers with a window, and lists what each layer
// keeps of a request's tokens. If the config lists the
// kind of each layer, the list is used. Otherwise a pattern in the config is
// used, and otherwise the default of the family. The caller has set the number
// of layers and the window in `config`, if the model has them.
void ReadLayerKinds(ConfigFields& fields, ModelConfig& config);

}  // namespace shardc

// Facts about model families that are in the code of transformers but not in a
// config.json. They are lists of families that share a property, and sizes that
// a config.json may omit because the family's class has a default for them.

namespace shardc::config_families {

using Name = std::string_view;

// A family in which every P-th layer attends to all tokens and the other layers
// attend within a window. `layers` is P, unless the config states another
// period. If `rounds_up` is true, a last group of fewer than P layers also has
// one layer that attends to all tokens. In ModernBERT this is the first layer
// of the group, and in Gemma 4 the last layer.
struct Period {
  Name family;
  int64_t layers;
  bool rounds_up = false;
};
inline constexpr std::array<Period, 11> kSeesAll = {{
    {"gemma2", 2},
    {"gpt_oss", 2},
    {"cohere2", 4},
    {"exaone4", 4},
    {"olmo3", 4},
    {"gemma3", 6},
    {"gemma3_text", 6},
    {"gemma4", 6, true},
    {"gemma4_text", 6, true},
    {"modernbert", 3, true},
    {"modernbert-decoder", 3, true},
}};
// Families whose tokens also attend to later tokens (not causal), unless
// `is_decoder` is true.
inline constexpr std::array<Name, 9> kBidirectional = {
    "albert",     "bert",    "deberta-v2", "distilbert", "electra",
    "modernbert", "roberta", "vit",        "xlm-roberta"};
// Families whose layers have a state-space mixer or a recurrence instead of
// attention. The `num_heads` of Mamba 2 are the heads of its mixer.
inline constexpr std::array<Name, 8> kWithoutAttention = {
    "falcon_mamba", "mamba", "mamba2", "rwkv",
    "rwkv5",        "rwkv6", "rwkv7",  "xlstm"};
// Families in which every fourth layer has attention and the other layers have
// linear attention, unless the config states another interval.
inline constexpr std::array<Name, 3> kAttentionInFourth = {
    "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"};
// Families in which layers without a window have another head size than layers
// with a window. If the config does not state this other size, it is 512.
inline constexpr std::array<Name, 2> kWideFullHeads = {"gemma4", "gemma4_text"};
// Families whose layers with a window have twice as many KV heads as the other
// layers.
inline constexpr std::array<Name, 1> kTwiceWindowedKvHeads = {"mimo_v2_flash"};
// Families in which each layer has two attention blocks.
inline constexpr std::array<Name, 1> kAttentionTwice = {"longcat_flash"};
// Families in which every P-th layer has attention, beginning with the layer
// `first`. `layers` is P, unless the config states another period.
struct AttentionPeriod {
  Name family;
  int64_t layers, first;
};
inline constexpr std::array<AttentionPeriod, 2> kAttentionEvery = {{
    {"jamba", 8, 4},
    {"zamba", 6, 4},
}};
// Families whose head size is twice the hidden size divided by the number of
// heads, because attention also reads the embeddings.
inline constexpr std::array<Name, 2> kTwiceWideHeads = {"zamba", "zamba2"};
// Families in which the third layer has attention, and the period of attention
// layers begins after this layer.
inline constexpr std::array<Name, 1> kAttentionInThird = {"zamba"};
// Families whose window is the value of the key `local_attention`, or 128
// tokens without this key. Half of the window precedes a token. A decoder
// (kHalfWindow) attends only to this half.
inline constexpr std::array<Name, 2> kLocalAttention = {"modernbert",
                                                        "modernbert-decoder"};
inline constexpr std::array<Name, 1> kHalfWindow = {"modernbert-decoder"};
// Families whose layers with a window attend within fixed chunks of tokens.
inline constexpr std::array<Name, 2> kChunked = {"llama4", "llama4_text"};
// Families that ignore `sliding_window` unless `use_sliding_window` is true.
inline constexpr std::array<Name, 9> kWindowOnRequest = {
    "qwen2",           "qwen2_moe", "qwen2_vl",  "qwen2_vl_text", "qwen2_5_vl",
    "qwen2_5_vl_text", "qwen3",     "qwen3_moe", "smollm3"};
// Families whose first layers attend to all tokens. `layers` is the number of
// these layers, unless the config states `max_window_layers`.
struct FullFirst {
  Name family;
  int64_t layers;
};
inline constexpr std::array<FullFirst, 7> kFullFirst = {{
    {"qwen2", 28},
    {"qwen3", 28},
    {"dots1", 62},
    {"qwen2_vl", 80},
    {"qwen2_vl_text", 80},
    {"qwen2_5_vl", 80},
    {"qwen2_5_vl_text", 80},
}};
// Families in which every second layer has a window: the first, the third and
// so on, among the first `max_window_layers` layers. The default of
// `max_window_layers` is 28.
inline constexpr std::array<Name, 1> kWindowInEven = {"qwen2_moe"};
// Families in which all layers have a window, and `max_window_layers` is
// ignored.
inline constexpr std::array<Name, 1> kWindowInAll = {"qwen3_moe"};
// Families in which exactly the layers that do not rotate queries and keys
// (NoPE) have a window.
inline constexpr std::array<Name, 1> kWindowUnrotated = {"smollm3"};
// Families with one KV head unless `multi_query` is false.
inline constexpr std::array<Name, 3> kMultiQuery = {"falcon", "RefinedWebModel",
                                                    "gpt_bigcode"};
inline constexpr std::array<Name, 7> kEncoderDecoders = {
    "t5", "mt5", "umt5", "longt5", "whisper", "bart", "clip"};

// Families that rotate queries and keys (RoPE), even if the config.json does
// not state the base of the rotation.
inline constexpr std::array<Name, 25> kRotating = {
    "llama",     "mistral",     "mixtral",   "qwen",    "qwen2",
    "qwen2_moe", "qwen3",       "qwen3_moe", "gemma",   "gemma2",
    "gemma3",    "gemma3_text", "phi",       "phi3",    "phimoe",
    "gpt_neox",  "stablelm",    "falcon",    "cohere",  "cohere2",
    "olmo",      "olmo2",       "olmoe",     "gpt_oss", "starcoder2"};

// Families that do not scale attention scores (kUnscaled), and families with
// attention sinks (kSinks).
inline constexpr std::array<Name, 4> kUnscaled = {"t5", "mt5", "umt5",
                                                  "longt5"};
inline constexpr std::array<Name, 1> kSinks = {"gpt_oss"};

// Families whose language-model head transformers ties to the embeddings by
// default. Falcon is not listed. Its config class has this default, but its
// checkpoints contain both tensors. tests/families compares this list with the
// value `tied` of the model descriptions in families/.
inline constexpr std::array<Name, 25> kTiedByDefault = {
    "gpt2",         "gemma",
    "gemma2",       "gemma3",
    "gemma3_text",  "gemma4",
    "gemma4_text",  "bloom",
    "opt",          "t5",
    "whisper",      "cohere",
    "cohere2",      "ernie4_5",
    "gpt_bigcode",  "gpt_neo",
    "mpt",          "smollm3",
    "starcoder2",   "ernie4_5_moe",
    "gemma3n_text", "recurrent_gemma",
    "vaultgemma",   "youtu",
    "lfm2"};
// Families whose feed-forward width is four times the hidden size, unless the
// config states another width.
inline constexpr std::array<Name, 9> kFourfold = {
    "gpt2",        "gptj",       "bloom",           "falcon",
    "gpt_bigcode", "RefinedWeb", "RefinedWebModel", "mixformer-sequential",
    "phi-msft"};

// The default sizes of a family's config class. 0 means that the class has no
// default for a size, or computes it from other sizes.
struct Defaults {
  Name family;
  int64_t kv_heads = 0, head_dim = 0;
  // These defaults are used only for a language model inside a larger model. In
  // such a nested config, transformers omits values that equal the defaults. In
  // the config.json of a single language model, it writes them.
  int64_t heads = 0, hidden = 0, intermediate = 0, layers = 0, vocab = 0;
  // The window if the config omits the key. A null in the config means that
  // there is no window.
  int64_t window = 0;
};

inline constexpr std::array<Defaults, 31> kDefaults = {{
    {"llama", 0, 0, 32, 4096, 11008, 32, 32000},
    {"mistral", 8, 0, 32, 4096, 14336, 32, 32000},
    {"qwen2", 32, 0, 32, 4096, 22016, 32, 151936, 4096},
    {"qwen2_vl", 8, 0, 64, 8192, 29568, 80, 152064, 4096},
    {"qwen2_vl_text", 8, 0, 64, 8192, 29568, 80, 152064, 4096},
    {"qwen2_5_vl", 8, 0, 64, 8192, 29568, 80, 152064, 4096},
    {"qwen2_5_vl_text", 8, 0, 64, 8192, 29568, 80, 152064, 4096},
    {"gemma", 16, 256, 16, 3072, 24576, 28, 256000},
    {"gemma2", 4, 256, 8, 2304, 9216, 26, 256000, 4096},
    {"gemma3_text", 4, 256, 8, 2304, 9216, 26, 262208, 4096},
    {"gemma4_text", 4, 256, 8, 2304, 9216, 30, 262144, 512},
    {"mllama_text_model", 8, 0, 32, 4096, 14336, 40, 128256},
    {"clip_text_model", 0, 0, 8, 512, 2048, 12, 49408},
    {"ministral", 8},
    {"mixtral", 8},
    {"phimoe", 8},
    {.family = "qwen2_moe", .kv_heads = 16, .window = 4096},
    {.family = "qwen3", .kv_heads = 32, .head_dim = 128, .window = 4096},
    {.family = "qwen3_moe", .kv_heads = 4, .window = 4096},
    {"glm", 2, 128},
    {"glm4", 2, 128},
    {"glm4_moe", 8},
    {"gpt_oss", 8, 64},
    {"helium", 20, 128},
    {"smollm3", 4},
    {"stablelm", 32},
    {"starcoder2", 2},
    {"exaone4", 32},
    {"seed_oss", 8, 128},
    {"ernie4_5", 2, 128},
    {"llama4_text", 8, 128},
}};

// Returns the default sizes of a family, or null if kDefaults does not contain
// the family.
inline const Defaults* DefaultsOf(Name family) {
  const auto found =
      std::find_if(kDefaults.begin(), kDefaults.end(),
                   [&](const Defaults& one) { return one.family == family; });
  return found == kDefaults.end() ? nullptr : &*found;
}

}  // namespace shardc::config_families

#endif  // SHARDC_PARSE_LAYER_KINDS_H_
