#include "step/small_models.h"

#include <algorithm>
#include <string>
#include <utility>

#include "doctest/doctest.h"
#include "source/size.h"

namespace shardc::step {

const std::vector<Family> kFamilies = {
    {"llama", "hf",
     R"({"model_type": "llama", "vocab_size": 11, "hidden_size": 8,
        "intermediate_size": 12, "num_hidden_layers": 2, "rms_norm_eps": 1e-5,
        "num_attention_heads": 4, "num_key_value_heads": 2,
        "attention_bias": true, "mlp_bias": true})"},
    {"llama", "flax",
     R"({"model_type": "llama", "vocab_size": 11, "hidden_size": 8,
        "intermediate_size": 12, "num_hidden_layers": 2, "rms_norm_eps": 1e-5,
        "num_attention_heads": 4, "num_key_value_heads": 2})"},
    {"llama", "hf",
     R"({"model_type": "qwen2", "vocab_size": 11, "hidden_size": 8,
        "intermediate_size": 12, "num_hidden_layers": 2, "rms_norm_eps": 1e-6,
        "num_attention_heads": 4, "num_key_value_heads": 2,
        "tie_word_embeddings": true, "use_sliding_window": false})"},
    {"llama", "hf",
     R"({"model_type": "qwen3", "vocab_size": 11, "hidden_size": 8,
        "intermediate_size": 12, "num_hidden_layers": 2, "rms_norm_eps": 1e-6,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6})"},
    {"llama", "hf",
     R"({"model_type": "mistral", "vocab_size": 11, "hidden_size": 8,
        "intermediate_size": 12, "num_hidden_layers": 2, "rms_norm_eps": 1e-5,
        "num_attention_heads": 4, "num_key_value_heads": 2,
        "sliding_window": 3})"},
    {"mixtral", "hf",
     R"({"model_type": "mixtral", "vocab_size": 11, "hidden_size": 8,
        "intermediate_size": 12, "num_hidden_layers": 2, "rms_norm_eps": 1e-5,
        "num_attention_heads": 4, "num_key_value_heads": 2,
        "num_local_experts": 4, "num_experts_per_tok": 2})"},
    {"mixtral", "hf-files",
     R"({"model_type": "mixtral", "vocab_size": 11, "hidden_size": 8,
        "intermediate_size": 12, "num_hidden_layers": 2, "rms_norm_eps": 1e-5,
        "num_attention_heads": 4, "num_key_value_heads": 2,
        "num_local_experts": 4, "num_experts_per_tok": 2})"},
    {"gpt2", "hf",
     R"({"model_type": "gpt2", "vocab_size": 11, "n_embd": 8, "n_layer": 2,
        "n_head": 2, "n_positions": 16, "layer_norm_epsilon": 1e-5})"},
    {"gemma", "hf",
     R"({"model_type": "gemma", "vocab_size": 11, "hidden_size": 8,
        "intermediate_size": 12, "num_hidden_layers": 2, "rms_norm_eps": 1e-6,
        "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 6})"},
    {"gemma", "hf",
     R"({"model_type": "gemma2", "vocab_size": 11, "hidden_size": 8,
        "intermediate_size": 12, "num_hidden_layers": 2, "rms_norm_eps": 1e-6,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6,
        "sliding_window": 3, "query_pre_attn_scalar": 8,
        "attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0})"},
    {"gemma", "hf",
     R"({"model_type": "gemma3_text", "vocab_size": 11, "hidden_size": 8,
        "intermediate_size": 12, "num_hidden_layers": 2, "rms_norm_eps": 1e-6,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6,
        "sliding_window": 3, "sliding_window_pattern": 2,
        "query_pre_attn_scalar": 8, "rope_local_base_freq": 100.0})"},
    {"phimoe", "hf",
     R"({"model_type": "phimoe", "vocab_size": 11, "hidden_size": 8,
        "intermediate_size": 12, "num_hidden_layers": 2, "rms_norm_eps": 1e-5,
        "num_attention_heads": 4, "num_key_value_heads": 2,
        "attention_bias": true, "lm_head_bias": true, "num_local_experts": 5,
        "num_experts_per_tok": 2, "router_jitter_noise": 0.25,
        "output_router_logits": true, "router_aux_loss_coef": 0.5})"},
    {"phimoe", "hf-files",
     R"({"model_type": "phimoe", "vocab_size": 11, "hidden_size": 8,
        "intermediate_size": 12, "num_hidden_layers": 2, "rms_norm_eps": 1e-5,
        "num_attention_heads": 4, "num_key_value_heads": 2,
        "num_local_experts": 5, "num_experts_per_tok": 2})"},
    {"dbrx", "hf",
     R"({"model_type": "dbrx", "vocab_size": 11, "d_model": 8, "n_heads": 4,
        "n_layers": 2, "max_seq_len": 16,
        "attn_config": {"kv_n_heads": 2, "clip_qkv": 0.5,
                        "rope_theta": 10000.0},
        "ffn_config": {"ffn_hidden_size": 12, "moe_num_experts": 4,
                       "moe_top_k": 2, "moe_normalize_expert_weights": 2,
                       "moe_loss_weight": 0.5},
        "output_router_logits": true})"},
    {"llama4", "hf",
     R"({"model_type": "llama4_text", "vocab_size": 11, "hidden_size": 8,
        "intermediate_size": 12, "intermediate_size_mlp": 10,
        "num_hidden_layers": 4, "rms_norm_eps": 1e-5, "head_dim": 6,
        "num_attention_heads": 4, "num_key_value_heads": 2,
        "num_local_experts": 4, "interleave_moe_layer_step": 2,
        "attention_chunk_size": 3, "floor_scale": 2})"},
    {"falcon", "hf",
     R"({"model_type": "RefinedWebModel", "vocab_size": 11, "hidden_size": 8,
        "n_layer": 2, "n_head": 4, "multi_query": true, "parallel_attn": true,
        "bias": false, "alibi": false, "layer_norm_epsilon": 1e-5})"},
    {"qwen", "hf",
     R"({"model_type": "qwen", "vocab_size": 11, "hidden_size": 8,
        "intermediate_size": 24, "num_hidden_layers": 2,
        "layer_norm_epsilon": 1e-6, "num_attention_heads": 4,
        "kv_channels": 2, "rotary_emb_base": 10000})"},
    {"bert", "hf",
     R"({"model_type": "bert", "vocab_size": 11, "hidden_size": 8,
        "intermediate_size": 12, "num_hidden_layers": 2, "pad_token_id": 0,
        "num_attention_heads": 4, "max_position_embeddings": 16})"},
    {"bert", "flax",
     R"({"model_type": "bert", "vocab_size": 11, "hidden_size": 8,
        "intermediate_size": 12, "num_hidden_layers": 2, "pad_token_id": 0,
        "num_attention_heads": 4, "max_position_embeddings": 16})"},
    {"bert", "hf",
     R"({"model_type": "roberta", "vocab_size": 11, "hidden_size": 8,
        "intermediate_size": 12, "num_hidden_layers": 2, "pad_token_id": 1,
        "num_attention_heads": 4, "max_position_embeddings": 16})"},
    {"vit", "hf",
     R"({"model_type": "vit", "hidden_size": 8, "intermediate_size": 12,
        "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 6,
        "patch_size": 2, "num_labels": 5})"},
    {"vit", "flax",
     R"({"model_type": "vit", "hidden_size": 8, "intermediate_size": 12,
        "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 6,
        "patch_size": 2, "num_labels": 5})"},
    {"t5", "hf",
     R"({"model_type": "t5", "vocab_size": 11, "d_model": 8, "d_kv": 3,
        "d_ff": 12, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 4,
        "relative_attention_num_buckets": 6, "feed_forward_proj": "relu",
        "relative_attention_max_distance": 4, "layer_norm_epsilon": 1e-6})"},
    {"t5", "hf",
     R"({"model_type": "umt5", "vocab_size": 11, "d_model": 8, "d_kv": 3,
        "d_ff": 12, "num_layers": 3, "num_decoder_layers": 2, "num_heads": 4,
        "relative_attention_num_buckets": 6, "tie_word_embeddings": false,
        "relative_attention_max_distance": 4, "layer_norm_epsilon": 1e-6})"},
    {"whisper", "hf",
     R"({"model_type": "whisper", "vocab_size": 11, "num_mel_bins": 3,
        "d_model": 8, "encoder_layers": 2, "decoder_layers": 2,
        "encoder_attention_heads": 2, "decoder_attention_heads": 4,
        "encoder_ffn_dim": 10, "decoder_ffn_dim": 12,
        "max_source_positions": 6, "max_target_positions": 16})"},
    {"whisper", "flax",
     R"({"model_type": "whisper", "vocab_size": 11, "num_mel_bins": 3,
        "d_model": 8, "encoder_layers": 2, "decoder_layers": 2,
        "encoder_attention_heads": 2, "decoder_attention_heads": 4,
        "encoder_ffn_dim": 10, "decoder_ffn_dim": 12,
        "max_source_positions": 6, "max_target_positions": 16})"},
    {"distilbert", "hf",
     R"({"model_type": "distilbert", "vocab_size": 11, "dim": 8,
        "hidden_dim": 12, "n_layers": 2, "n_heads": 4,
        "max_position_embeddings": 16})"},
};

const Family& FirstOf(std::string_view pack) {
  const auto found =
      std::find_if(kFamilies.begin(), kFamilies.end(),
                   [&](const Family& f) { return f.pack == pack; });
  REQUIRE(found != kFamilies.end());
  return *found;
}

Described ModelOf(const Family& family) {
  Described model =
      FromConfig(std::string(family.config), family.naming, family.pack);
  REQUIRE(model.description != nullptr);
  return model;
}

StepModel Built(const Family& family, Mode mode, const AttentionForm& form) {
  const Described model = ModelOf(family);
  Findings findings;
  auto step = BuildForward(*model.description, &model.config, model.manifest,
                           mode, findings, {}, form);
  CAPTURE(family.config);
  CAPTURE(TextOf(findings));
  REQUIRE(step);
  return std::move(*step);
}

void CheckForm(const Graph& graph) {
  std::vector<bool> made(graph.values.size(), false);
  for (const Op& op : graph.ops) {
    CAPTURE(op.name);
    for (const ValueId in : op.in) {
      REQUIRE(in >= 0);
      CHECK(made[AsIndex(in)]);
    }
    CHECK_FALSE(made[AsIndex(op.out)]);
    made[AsIndex(op.out)] = true;
    for (const LabelId label : graph.values[AsIndex(op.out)].labels) {
      CHECK(label >= 0);
      CHECK(AsIndex(label) < graph.labels.size());
    }
  }
  CHECK(std::all_of(made.begin(), made.end(), [](bool is) { return is; }));
}

}  // namespace shardc::step
