// Reads which layers of a model have attention, a window or an encoder.
#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "parse/project.h"
#include "temporary_folder.h"

namespace shardc {
namespace {

struct Written {
  explicit Written(std::string_view text)
      : path(folder.Write("config.json", text)) {}
  TemporaryFolder folder;
  std::string path;
};

TEST_CASE("which layers see a window, and which have attention") {
  struct Case {
    std::string_view text;
    int64_t windowed, attention;  // -1: not given
  };
  constexpr Case kCases[] = {
      // Lists by layer. Layers without attention are not counted as attention
      // layers.
      {"{\"num_hidden_layers\": 4, \"sliding_window\": 128, \"layer_types\": "
       "[\"sliding_attention\", \"full_attention\", \"chunked_attention\", "
       "\"linear_attention\"]}",
       2, 3},
      {"{\"num_hidden_layers\": 8, \"hybrid_override_pattern\": "
       "\"M-M*M-M*\"}",
       -1, 2},
      {R"({"num_hidden_layers": 4, "layer_types":
           ["mamba", "mamba", "attention", "mamba"]})",
       -1, 1},
      {R"({"num_hidden_layers": 32, "attn_layer_period": 8,
           "attn_layer_offset": 4})",
       -1, 4},
      {R"({"num_hidden_layers": 12, "attn_layer_period": 8})", -1, 1},
      {R"({"num_hidden_layers": 9, "attn_layer_period": 4,
           "attn_layer_offset": 0})",
       -1, 3},
      {R"({"num_hidden_layers": 32, "attn_layer_indices": [9, 18, 27]})", -1,
       3},
      {R"({"num_hidden_layers": 76, "model_type": "zamba",
           "attn_layer_period": 6, "attn_layer_offset": 4})",
       -1, 13},
      // Jamba and Zamba without the keys of their class.
      {R"({"model_type": "jamba", "num_hidden_layers": 32})", -1, 4},
      {R"({"model_type": "jamba", "num_hidden_layers": 32,
           "attn_layer_offset": 7})",
       -1, 4},
      {R"({"model_type": "jamba", "num_hidden_layers": 6,
           "attn_layer_period": 2, "attn_layer_offset": 0})",
       -1, 3},
      {R"({"model_type": "zamba", "num_hidden_layers": 76})", -1, 13},
      // PLaMo-2: the middle layer of each step has attention with a window.
      {R"({"model_type": "plamo2", "num_hidden_layers": 32, "mamba_step": 2,
           "attention_window_size": 2048})",
       16, 16},
      {R"({"model_type": "plamo2", "num_hidden_layers": 10, "mamba_step": 4,
           "attention_window_size": 2048, "full_attention_idx": [6]})",
       1, 2},
      {R"({"num_hidden_layers": 2, "mamba_step": 8})", -1, 1},
      {R"({"num_hidden_layers": 4, "mamba_step": 2, "mamba_enabled": false})",
       -1, -1},
      {R"({"num_hidden_layers": 16, "full_attn_idxs": [2, 5, 8]})", -1, 3},
      {R"({"num_hidden_layers": 12, "hybrid_layer_ids": [6, 11]})", -1, 2},
      {R"({"num_hidden_layers": 3,
           "layers_block_type": ["mamba", "mlp", "hybrid"]})",
       -1, 1},
      {R"({"num_hidden_layers": 27,
           "linear_attn_config": {"full_attn_layers": [4, 8, 27]}})",
       -1, 3},
      {R"({"model_type": "mllama", "text_config": {"num_hidden_layers": 40,
           "cross_attention_layers": [3, 8, 13, 18, 23, 28, 33, 38]}})",
       -1, 32},
      {R"({"num_hidden_layers": 4, "attn_type_list": [0, 0, 0, 1]})", -1, 1},
      {R"({"num_hidden_layers": 26, "attention_window_size": 2048,
           "_block_types": ["recurrent", "recurrent", "attention"]})",
       8, 8},
      // Kinds that do not show which layers have attention.
      {R"({"num_hidden_layers": 4, "block_types": ["dense", "sparse"]})", -1,
       -1},
      {R"({"num_hidden_layers": 2, "block_configs": [{"width": 8}, 1]})", -1,
       -1},
      {R"({"num_hidden_layers": 48, "full_attention_interval": 4})", -1, 12},
      {R"({"model_type": "qwen3_next", "num_hidden_layers": 48})", -1, 12},
      {R"({"model_type": "longcat_flash", "num_layers": 28})", -1, 56},
      // transformers also writes the number of blocks of attention.
      {R"({"model_type": "longcat_flash", "num_layers": 28,
           "num_hidden_layers": 56})",
       -1, 56},
      {R"({"model_type": "mamba2", "num_hidden_layers": 64, "num_heads": 128,
           "head_dim": 64})",
       -1, 0},
      // Layers without attention have no window.
      {R"({"num_hidden_layers": 32, "attn_layer_period": 8,
           "sliding_window": 512})",
       4, 4},
      // Every P-th layer has no window, as in Gemma's code.
      {"{\"num_hidden_layers\": 9, \"sliding_window\": 128, "
       "\"sliding_window_pattern\": 4}",
       7, -1},
      {R"({"num_hidden_layers": 56, "sliding_window": 4096,
           "global_attn_every_n_layers": 4})",
       42, -1},
      // A period of 1: every layer attends to all tokens.
      {R"({"model_type": "gemma3_text", "num_hidden_layers": 9,
           "sliding_window": 128, "sliding_window_pattern": 1})",
       0, -1},
      {R"({"model_type": "modernbert", "num_hidden_layers": 22,
           "global_attn_every_n_layers": 1})",
       0, -1},
      // MiMo-V2-Flash lists the layers with a window.
      {R"({"num_hidden_layers": 6, "sliding_window": 128,
           "hybrid_layer_pattern": [0, 1, 1, 1, 1, 0]})",
       4, -1},
      // A repeated pattern of local and global layers; the last is global.
      {R"({"num_hidden_layers": 8, "sliding_window": 128,
           "sliding_window_pattern": "LLLG"})",
       6, -1},
      {R"({"num_hidden_layers": 30, "sliding_window": 128,
           "sliding_window_pattern": "LLLG"})",
       22, -1},
      {"{\"model_type\": \"gemma2\", \"num_hidden_layers\": 7, "
       "\"sliding_window\": 128}",
       4, -1},
      {"{\"model_type\": \"gemma3_text\", \"num_hidden_layers\": 26, "
       "\"sliding_window\": 128}",
       22, -1},
      // Gemma 4 and 2 without the keys of their class: a window of 512, a full
      // layer after five with a window, and a full last layer.
      {R"({"model_type": "gemma4_text", "num_hidden_layers": 30})", 25, -1},
      {R"({"model_type": "gemma4_text", "num_hidden_layers": 26})", 21, -1},
      {R"({"model_type": "gemma2", "num_hidden_layers": 26})", 13, -1},
      {R"({"model_type": "gemma2", "num_hidden_layers": 26,
           "sliding_window": null})",
       -1, -1},
      // ModernBERT: the first layer of three attends to all tokens.
      {R"({"model_type": "modernbert", "num_hidden_layers": 22,
           "local_attention": 128, "global_attn_every_n_layers": 3})",
       14, -1},
      {R"({"model_type": "modernbert", "num_hidden_layers": 28})", 18, -1},
      {R"({"model_type": "modernbert", "num_hidden_layers": 5,
           "global_attn_every_n_layers": 4})",
       3, -1},
      {R"({"model_type": "gpt_oss", "num_hidden_layers": 7,
           "sliding_window": 128})",
       4, -1},
      {R"({"model_type": "olmo3", "num_hidden_layers": 9,
           "sliding_window": 128})",
       7, -1},
      // Layers that rotate queries and keys attend within chunks.
      {R"({"model_type": "llama4_text", "num_hidden_layers": 48,
           "attention_chunk_size": 8192, "no_rope_layers": []})",
       36, -1},
      {R"({"model_type": "llama4", "text_config": {"num_hidden_layers": 4,
           "no_rope_layers": [1, 0, 1, 0]}})",
       2, -1},
      {R"({"model_type": "llama4_text", "num_hidden_layers": 2,
           "layer_types": ["chunked_attention", "full_attention"]})",
       1, -1},
      {R"({"model_type": "llama4_text", "num_hidden_layers": 48,
           "attention_chunk_size": null})",
       -1, -1},
      // A window that the family uses on request only.
      {R"({"model_type": "qwen2", "num_hidden_layers": 4,
           "sliding_window": 128})",
       -1, -1},
      {R"({"model_type": "qwen2", "num_hidden_layers": 4,
           "sliding_window": 128, "use_sliding_window": true,
           "max_window_layers": 0})",
       4, -1},
      // The first 28 layers, or 80, attend to all tokens by default.
      {R"({"model_type": "qwen2", "num_hidden_layers": 32,
           "sliding_window": 128, "use_sliding_window": true})",
       4, -1},
      {R"({"model_type": "qwen3", "num_hidden_layers": 36,
           "use_sliding_window": true})",
       8, -1},
      {R"({"model_type": "qwen2_vl", "num_hidden_layers": 28,
           "sliding_window": 128, "use_sliding_window": true})",
       0, -1},
      {R"({"model_type": "qwen2_5_vl", "num_hidden_layers": 28,
           "sliding_window": 128})",
       -1, -1},
      // The window is 4096 tokens by default.
      {R"({"model_type": "qwen2_vl", "num_hidden_layers": 28,
           "use_sliding_window": true, "max_window_layers": 21})",
       7, -1},
      {R"({"model_type": "qwen2_5_vl", "text_config": {"model_type":
           "qwen2_5_vl_text", "num_hidden_layers": 28,
           "use_sliding_window": true, "max_window_layers": 21}})",
       7, -1},
      // Every second of the first layers, and all layers.
      {R"({"model_type": "qwen2_moe", "num_hidden_layers": 24,
           "sliding_window": 128, "use_sliding_window": true,
           "max_window_layers": 21})",
       11, -1},
      {R"({"model_type": "qwen3_moe", "num_hidden_layers": 48,
           "sliding_window": 128, "use_sliding_window": true,
           "max_window_layers": 48})",
       48, -1},
      // Layers that do not rotate queries and keys.
      {R"({"model_type": "smollm3", "num_hidden_layers": 36,
           "sliding_window": 128, "use_sliding_window": true})",
       9, -1},
      {R"({"model_type": "smollm3", "num_hidden_layers": 4,
           "no_rope_layers": [1, 0, 0, 1], "sliding_window": 128,
           "use_sliding_window": true})",
       2, -1},
      {"{\"num_hidden_layers\": 28, \"sliding_window\": 128, "
       "\"max_window_layers\": 20}",
       8, -1},
      {"{\"num_hidden_layers\": 32, \"sliding_window\": 4096}", 32, -1},
      {"{\"num_hidden_layers\": 32}", -1, -1},
  };
  for (const Case& test : kCases) {
    CAPTURE(test.text);
    const Written file(test.text);
    Findings findings;
    const auto config = ReadModelConfig(file.path, findings);
    REQUIRE(config);
    CHECK(config->windowed_layers.value_or(-1) == test.windowed);
    CHECK(config->attention_layers.value_or(-1) == test.attention);
    CHECK_FALSE(config->has_encoder);
  }
}

TEST_CASE("heads of layers with a window, and of values") {
  struct Case {
    std::string_view text;
    // -1: not given
    int64_t value_dim, kv_heads, head_dim, windowed_value_dim, heads;
  };
  constexpr Case kCases[] = {
      // MiMo-V2-Flash as published, and as transformers writes it.
      {R"({"model_type": "mimo_v2_flash", "num_attention_heads": 64,
           "num_key_value_heads": 4, "head_dim": 192, "v_head_dim": 128,
           "swa_num_attention_heads": 96, "swa_num_key_value_heads": 8,
           "swa_head_dim": 192, "swa_v_head_dim": 128})",
       128, 8, 192, 128, 96},
      {R"({"model_type": "mimo_v2_flash", "num_attention_heads": 64,
           "num_key_value_heads": 4, "head_dim": 192, "v_head_dim": 128})",
       128, 8, -1, -1, -1},
      {R"({"model_type": "inkling2", "num_attention_heads": 64,
           "num_key_value_heads": 4, "swa_num_key_value_heads": 8,
           "swa_head_dim": 128})",
       -1, 8, 128, -1, -1},
      {R"({"kv_lora_rank": 512, "qk_nope_head_dim": 128,
           "qk_rope_head_dim": 64, "v_head_dim": 128})",
       -1, -1, -1, -1, -1},
      {R"({"num_attention_heads": 8, "num_key_value_heads": 4})", -1, -1, -1,
       -1, -1},
  };
  for (const Case& test : kCases) {
    CAPTURE(test.text);
    const Written file(test.text);
    Findings findings;
    const auto config = ReadModelConfig(file.path, findings);
    REQUIRE(config);
    CHECK(config->value_dim.value_or(-1) == test.value_dim);
    CHECK(config->windowed_kv_heads.value_or(-1) == test.kv_heads);
    CHECK(config->windowed_head_dim.value_or(-1) == test.head_dim);
    CHECK(config->windowed_value_dim.value_or(-1) == test.windowed_value_dim);
    CHECK(config->windowed_heads.value_or(-1) == test.heads);
  }
}

TEST_CASE("layers that attend to the keys of another layer") {
  struct Case {
    std::string_view text;
    int64_t layers, windowed;  // -1: not given
  };
  constexpr Case kCases[] = {
      // Gemma 3n: the last layers.
      {R"({"num_hidden_layers": 5, "num_kv_shared_layers": 2,
           "sliding_window": 512, "layer_types": ["sliding_attention",
           "sliding_attention", "full_attention", "sliding_attention",
           "full_attention"]})",
       2, 1},
      {R"({"num_hidden_layers": 5, "num_kv_shared_layers": 2})", 2, -1},
      {R"({"num_hidden_layers": 5, "num_kv_shared_layers": 0})", -1, -1},
      {R"({"num_hidden_layers": 5, "num_kv_shared_layers": 5})", -1, -1},
      // Hunyuan-Large: one layer of two has keys.
      {R"({"num_hidden_layers": 64, "use_cla": true, "cla_share_factor": 2})",
       32, -1},
      {R"({"num_hidden_layers": 5, "use_cla": true, "cla_share_factor": 2})", 2,
       -1},
      {R"({"num_hidden_layers": 64, "use_cla": false, "cla_share_factor": 2})",
       -1, -1},
  };
  for (const Case& test : kCases) {
    CAPTURE(test.text);
    const Written file(test.text);
    Findings findings;
    const auto config = ReadModelConfig(file.path, findings);
    REQUIRE(config);
    CHECK(config->borrowing_layers.value_or(-1) == test.layers);
    CHECK(config->borrowing_windowed.value_or(-1) == test.windowed);
  }
}

TEST_CASE("a model with an encoder, and its dropout") {
  const Written file(
      "{\"model_type\": \"t5\", \"num_layers\": 6, \"resid_pdrop\": 0.1}");
  Findings findings;
  const auto config = ReadModelConfig(file.path, findings);
  REQUIRE(config);
  CHECK(config->has_encoder);
  CHECK(config->layers == 6);
  CHECK(config->hidden_dropout == 0.1);
}

TEST_CASE("with an encoder, the layers are the decoder's") {
  for (const std::string_view text :
       {R"({"model_type": "whisper", "num_hidden_layers": 32,
            "encoder_layers": 32, "decoder_layers": 2})",
        R"({"model_type": "t5", "num_layers": 3, "num_decoder_layers": 2})"}) {
    CAPTURE(text);
    const Written file(text);
    Findings findings;
    const auto config = ReadModelConfig(file.path, findings);
    REQUIRE(config);
    CHECK(config->has_encoder);
    CHECK(config->layers == 2);
  }
}

TEST_CASE("tokens of an encoder alone attend to later tokens too") {
  const auto causal = [](std::string_view text) {
    const Written file(text);
    Findings findings;
    const auto config = ReadModelConfig(file.path, findings);
    REQUIRE(config);
    return config->causal;
  };
  CHECK_FALSE(causal(R"({"model_type": "bert"})"));
  CHECK_FALSE(causal(R"({"model_type": "vit", "is_decoder": false})"));
  CHECK(causal(R"({"model_type": "bert", "is_decoder": true})"));
  CHECK(causal(R"({"model_type": "llama"})"));
}

}  // namespace
}  // namespace shardc
