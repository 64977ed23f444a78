"""What transformers' models compute: logits and losses of tiny models, whose
weights follow from their names, so that no record needs to hold them."""

import json
import os

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy
import torch
import transformers

import records
from drawn import weights

BATCH, LENGTH, ENCODED = 2, 7, 9
SMALL = {"vocab_size": 17, "hidden_size": 16, "intermediate_size": 24,
         "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 64}
GPT = {"vocab_size": 17, "n_embd": 16, "n_layer": 2, "n_head": 4,
       "n_positions": 64}
MANY = {**SMALL, "num_key_value_heads": 4}
DEEP = {"n_routed_experts": 8, "num_experts_per_tok": 3, "n_shared_experts": 2,
        "moe_intermediate_size": 12, "first_k_dense_replace": 1,
        "kv_lora_rank": 12, "qk_rope_head_dim": 4, "qk_nope_head_dim": 6,
        "v_head_dim": 8, "n_group": 4, "topk_group": 2,
        "routed_scaling_factor": 2.5, "num_key_value_heads": 4}
BALANCED = {"num_local_experts": 4, "num_experts_per_tok": 2,
            "output_router_logits": True, "router_aux_loss_coef": 0.3}
ENCODER = {"vocab_size": 17, "hidden_size": 16, "intermediate_size": 24,
           "num_hidden_layers": 2, "num_attention_heads": 4,
           "max_position_embeddings": 64, "layer_norm_eps": 1e-5}
T5 = {"vocab_size": 17, "d_model": 16, "d_kv": 6, "d_ff": 24, "num_layers": 2,
      "num_decoder_layers": 3, "num_heads": 4,
      "relative_attention_num_buckets": 8,
      "relative_attention_max_distance": 6}
WHISPER = {"vocab_size": 17, "num_mel_bins": 5, "d_model": 16,
           "encoder_layers": 3, "decoder_layers": 2,
           "encoder_attention_heads": 2, "decoder_attention_heads": 4,
           "encoder_ffn_dim": 20, "decoder_ffn_dim": 24,
           "max_source_positions": 6, "max_target_positions": 64,
           "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
           "decoder_start_token_id": 1}
HEADS = {"bert": transformers.AutoModelForMaskedLM,
         "roberta": transformers.AutoModelForMaskedLM,
         "distilbert": transformers.AutoModelForMaskedLM,
         "vit": transformers.AutoModelForImageClassification,
         "whisper": transformers.AutoModelForSpeechSeq2Seq,
         "qwen2_vl": transformers.AutoModelForImageTextToText}

# Layers without a window rotate otherwise than those with one.
LAYERED = {"sliding_window": 3,
          "layer_types": ["sliding_attention", "full_attention"],
          "rope_parameters": {
              "sliding_attention": {"rope_type": "default",
                                    "rope_theta": 300.0},
              "full_attention": {
                  "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
                  "original_max_position_embeddings": 16,
                  "attention_factor": 1.5}}}

# Name: the config.json, save for what all have.
CASES = {
    "granite-moe": {"model_type": "granitemoe", **SMALL,
                    "num_local_experts": 4, "num_experts_per_tok": 2,
                    "embedding_multiplier": 1.5, "attention_multiplier": 0.4,
                    "residual_multiplier": 0.7, "logits_scaling": 2.0,
                    "pad_token_id": 0},
    "nemotron": {"model_type": "nemotron", **SMALL, "norm_eps": 1e-5,
                 "partial_rotary_factor": 0.5, "pad_token_id": 0},
    "gpt-bigcode": {"model_type": "gpt_bigcode", **GPT, "multi_query": True},
    "gpt-bigcode-heads": {"model_type": "gpt_bigcode", **GPT,
                          "multi_query": False},
    "gpt-neo": {"model_type": "gpt_neo", "vocab_size": 17, "hidden_size": 16,
                "num_layers": 2, "num_heads": 4, "window_size": 3,
                "max_position_embeddings": 64,
                "attention_types": [[["global", "local"], 1]]},
    "falcon-7b": {"model_type": "falcon", "vocab_size": 17, "hidden_size": 16,
                  "num_hidden_layers": 2, "num_attention_heads": 4,
                  "multi_query": True, "parallel_attn": True, "bias": False,
                  "alibi": False, "new_decoder_architecture": False},
    "falcon-40b": {"model_type": "falcon", "vocab_size": 17, "hidden_size": 16,
                   "num_hidden_layers": 2, "num_attention_heads": 4,
                   "num_kv_heads": 2, "bias": False, "alibi": False,
                   "new_decoder_architecture": True},
    "falcon-heads": {"model_type": "falcon", "vocab_size": 17,
                     "hidden_size": 16, "num_hidden_layers": 2,
                     "num_attention_heads": 4, "multi_query": False,
                     "parallel_attn": False, "bias": True, "alibi": False,
                     "new_decoder_architecture": False},
    "bloom": {"model_type": "bloom", "vocab_size": 17, "hidden_size": 24,
              "n_layer": 2, "n_head": 6},
    "mpt": {"model_type": "mpt", "vocab_size": 17, "d_model": 24,
            "n_heads": 6, "n_layers": 2, "max_seq_len": 64},
    "llama": {"model_type": "llama", **SMALL, "attention_bias": True,
              "mlp_bias": True},
    "llama3-rope": {"model_type": "llama", **SMALL, "rope_theta": 10000.0,
                    "rope_scaling": {
                        "rope_type": "llama3", "factor": 8.0,
                        "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                        "original_max_position_embeddings": 32}},
    "mistral": {"model_type": "mistral", **SMALL, "sliding_window": 3},
    "qwen2": {"model_type": "qwen2", **SMALL, "tie_word_embeddings": True},
    "qwen3": {"model_type": "qwen3", **SMALL, "head_dim": 6},
    "qwen3-quick": {"model_type": "qwen3", **SMALL, "head_dim": 6,
                    "hidden_act": "quick_gelu"},
    "mixtral": {"model_type": "mixtral", **SMALL, "num_local_experts": 4,
                "num_experts_per_tok": 2},
    "gpt2": {"model_type": "gpt2", **GPT},
    "gemma": {"model_type": "gemma", **SMALL, "head_dim": 6},
    "gemma2": {"model_type": "gemma2", **SMALL, "head_dim": 6,
               "sliding_window": 3, "query_pre_attn_scalar": 8,
               "attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0},
    "gemma3": {"model_type": "gemma3_text", **SMALL, "head_dim": 6,
               "sliding_window": 3, "query_pre_attn_scalar": 8,
               "layer_types": ["sliding_attention", "full_attention"]},
    "qwen3-moe": {"model_type": "qwen3_moe", **SMALL, "num_experts": 4,
                  "num_experts_per_tok": 2, "moe_intermediate_size": 12,
                  "norm_topk_prob": True, "mlp_only_layers": [0]},
    "qwen2-moe": {"model_type": "qwen2_moe", **SMALL, "num_experts": 4,
                  "num_experts_per_tok": 2, "moe_intermediate_size": 12,
                  "shared_expert_intermediate_size": 20},
    "deepseek-v3": {"model_type": "deepseek_v3", **SMALL, **DEEP,
                    "q_lora_rank": 10, "norm_topk_prob": True},
    "deepseek-v2": {"model_type": "deepseek_v2", **SMALL, **DEEP,
                    "q_lora_rank": None, "topk_method": "group_limited_greedy",
                    "scoring_func": "softmax", "norm_topk_prob": False},
    "glm4-moe": {"model_type": "glm4_moe", **SMALL, "head_dim": 8,
                 "n_routed_experts": 8, "num_experts_per_tok": 2,
                 "n_shared_experts": 1, "moe_intermediate_size": 12,
                 "first_k_dense_replace": 1, "n_group": 2, "topk_group": 1,
                 "use_qk_norm": True, "attention_bias": True},
    "gpt-oss": {"model_type": "gpt_oss", **SMALL, "head_dim": 8,
                "num_local_experts": 4, "num_experts_per_tok": 2,
                "sliding_window": 3,
                "layer_types": ["sliding_attention", "full_attention"]},
    "gptj": {"model_type": "gptj", **GPT, "rotary_dim": 2},
    "gpt-neox": {"model_type": "gpt_neox", **MANY, "rotary_pct": 0.5},
    "opt": {"model_type": "opt", "vocab_size": 17, "hidden_size": 16,
            "ffn_dim": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
            "max_position_embeddings": 64, "word_embed_proj_dim": 16},
    "phi": {"model_type": "phi", **SMALL, "partial_rotary_factor": 0.5},
    "phi3": {"model_type": "phi3", **SMALL, "pad_token_id": 0},
    "stablelm": {"model_type": "stablelm", **SMALL, "use_qkv_bias": True,
                 "partial_rotary_factor": 0.5},
    "starcoder2": {"model_type": "starcoder2", **SMALL},
    "cohere": {"model_type": "cohere", **SMALL, "logit_scale": 0.25,
               "pad_token_id": 0},
    "olmo": {"model_type": "olmo", **SMALL, "pad_token_id": 0},
    "olmo2": {"model_type": "olmo2", **SMALL, "pad_token_id": 0},
    "olmoe": {"model_type": "olmoe", **SMALL, "num_experts": 4,
              "num_experts_per_tok": 2, "pad_token_id": 0},
    "mixtral-balance": {"model_type": "mixtral", **SMALL, **BALANCED},
    "phimoe": {"model_type": "phimoe", **SMALL, **BALANCED,
               "num_local_experts": 6, "attention_bias": True,
               "lm_head_bias": True, "router_jitter_noise": 0.3},
    "dbrx": {"model_type": "dbrx", "vocab_size": 17, "d_model": 16,
             "n_heads": 4, "n_layers": 2, "max_seq_len": 64,
             "attn_config": {"kv_n_heads": 2, "clip_qkv": 0.5,
                             "rope_theta": 500000.0},
             "ffn_config": {"hidden_size": 16, "ffn_hidden_size": 24,
                            "moe_num_experts": 4, "moe_top_k": 2,
                            "moe_loss_weight": 0.3},
             "output_router_logits": True},
    "llama4": {"model_type": "llama4_text", **SMALL, "head_dim": 6,
               "num_hidden_layers": 4, "intermediate_size_mlp": 20,
               "num_local_experts": 4, "num_experts_per_tok": 1,
               "interleave_moe_layer_step": 2, "attention_chunk_size": 3,
               "floor_scale": 2, "attn_scale": 0.5, "pad_token_id": 0},
    "bert": {"model_type": "bert", **ENCODER, "hidden_act": "gelu"},
    "bert-untied": {"model_type": "bert", **ENCODER, "type_vocab_size": 3,
                    "tie_word_embeddings": False},
    "roberta": {"model_type": "roberta", **ENCODER, "pad_token_id": 0,
                "type_vocab_size": 1, "hidden_act": "gelu_new"},
    "distilbert": {"model_type": "distilbert", "vocab_size": 17, "dim": 16,
                   "n_layers": 2, "n_heads": 4, "hidden_dim": 24,
                   "max_position_embeddings": 64},
    "vit": {"model_type": "vit", "hidden_size": 16, "intermediate_size": 24,
            "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 6,
            "patch_size": 2, "num_channels": 3, "num_labels": 5},
    "qwen2-vl": {"model_type": "qwen2_vl",
                 "text_config": {
                     "model_type": "qwen2_vl_text", **SMALL,
                     "hidden_size": 32, "rope_parameters": {
                         "rope_type": "default", "rope_theta": 10000.0,
                         "mrope_section": [2, 1, 1]}},
                 "vision_config": {"depth": 1, "embed_dim": 16, "num_heads": 2,
                                   "hidden_size": 32, "patch_size": 4}},
    "llama4-two": {"model_type": "llama4_text", **SMALL, "head_dim": 6,
                   "num_local_experts": 4, "num_experts_per_tok": 2,
                   "use_qk_norm": False, "no_rope_layer_interval": 2,
                   "attention_chunk_size": 4, "pad_token_id": 0,
                   "attention_bias": True, "attn_temperature_tuning": False},
    "t5": {"model_type": "t5", **T5, "feed_forward_proj": "relu"},
    "t5-gated": {"model_type": "t5", **T5, "feed_forward_proj": "gated-gelu",
                 "tie_word_embeddings": False},
    "mt5": {"model_type": "mt5", **T5},
    "umt5": {"model_type": "umt5", **T5},
    "whisper": {"model_type": "whisper", **WHISPER},
    "qwen2-window": {"model_type": "qwen2", **SMALL, "num_hidden_layers": 3,
                     "use_sliding_window": True, "sliding_window": 3,
                     "max_window_layers": 1},
    "ministral": {"model_type": "ministral", **SMALL, "head_dim": 6,
                  "sliding_window": 3},
    "ernie4.5": {"model_type": "ernie4_5", **SMALL, "head_dim": 6,
                 "use_bias": True},
    "helium": {"model_type": "helium", **SMALL, "head_dim": 4},
    "smollm3": {"model_type": "smollm3", **SMALL, "no_rope_layer_interval": 2,
                "pad_token_id": 0},
    "smollm3-list": {"model_type": "smollm3", **SMALL, "pad_token_id": 0,
                     "no_rope_layers": [0, 1]},
    "cohere2": {"model_type": "cohere2", **SMALL, "num_hidden_layers": 4,
                "head_dim": 6, "sliding_window": 3, "logit_scale": 0.25,
                "pad_token_id": 0},
    "cohere2-types": {"model_type": "cohere2", **SMALL, "sliding_window": 3,
                      "logit_scale": 0.25, "pad_token_id": 0, "layer_types": [
                          "full_attention", "sliding_attention"]},
    "olmo3": {"model_type": "olmo3", **SMALL, **LAYERED, "pad_token_id": 0},
    "gemma3-yarn": {"model_type": "gemma3_text", **SMALL, **LAYERED,
                    "head_dim": 6, "query_pre_attn_scalar": 8},
    "olmo-clip": {"model_type": "olmo", **SMALL, "pad_token_id": 0,
                  "clip_qkv": 0.3},
    "olmoe-clip": {"model_type": "olmoe", **SMALL, "num_experts": 4,
                   "num_experts_per_tok": 2, "pad_token_id": 0,
                   "clip_qkv": 0.3},
    "gemma2-linear": {"model_type": "gemma2", **SMALL, "head_dim": 6,
                      "sliding_window": 3, "query_pre_attn_scalar": 8,
                      "rope_parameters": {"rope_type": "linear",
                                          "rope_theta": 100.0, "factor": 4.0}},
    "gpt2-depth": {"model_type": "gpt2", **GPT,
                   "scale_attn_by_inverse_layer_idx": True},
    "t5-silu": {"model_type": "t5", **T5, "feed_forward_proj": "gated-silu"},
    "granite": {"model_type": "granite", **SMALL, "embedding_multiplier": 1.5,
                "attention_multiplier": 0.4, "residual_multiplier": 0.7,
                "logits_scaling": 2.0, "pad_token_id": 0},
}
# Keys that transformers writes and that a published config.json may lack.
LACKING = {"qwen2-window": ["layer_types"], "ministral": ["layer_types"],
           "smollm3": ["no_rope_layers"], "cohere2": ["layer_types"],
           "t5-silu": ["dense_act_fn"]}


def pictures(model, draw):
    """What a model of pictures is given, and the same as tokens: patch by
    patch, behind a first token that has none."""
    size, patch = model.config.image_size, model.config.patch_size
    side, channels = size // patch, model.config.num_channels
    pixels = draw.standard_normal((BATCH, channels, size, size)).round(4)
    patches = pixels.reshape(BATCH, channels, side, patch, side, patch) \
        .transpose(0, 2, 4, 1, 3, 5).reshape(BATCH, side * side, -1)
    patches = numpy.pad(patches, ((0, 0), (1, 0), (0, 0)))
    out = model(torch.from_numpy(pixels))
    # A row has one token that is judged.
    out.logits = out.logits[:, None]
    return out, {"patches": patches.reshape(BATCH, -1).tolist(),
                 "ids": numpy.zeros(patches.shape[:2], int).tolist()}


def words(model, draw):
    """The same of a model of words: of its encoder too, where it has one."""
    given = {"ids": draw.integers(1, 17, (BATCH, LENGTH))}
    labels = draw.integers(0, 17, (BATCH, LENGTH))
    if model.config.model_type == "whisper":
        frames = draw.standard_normal((
            BATCH, 2 * model.config.max_source_positions,
            model.config.num_mel_bins)).round(4)
        out = model(torch.from_numpy(frames.transpose(0, 2, 1)),
                    decoder_input_ids=torch.from_numpy(given["ids"]))
        given["patches"] = frames.reshape(BATCH, -1)
    elif model.config.is_encoder_decoder:
        given["encoder_ids"] = draw.integers(1, 17, (BATCH, ENCODED))
        out = model(input_ids=torch.from_numpy(given["encoder_ids"]),
                    decoder_input_ids=torch.from_numpy(given["ids"]))
    else:
        out = model(torch.from_numpy(given["ids"]))
    return out, {key: ids.tolist() for key, ids in given.items()}, labels


def answer(name, config):
    kind = transformers.CONFIG_MAPPING[config["model_type"]]
    made = kind.from_dict({**config, "use_cache": False,
                           "attn_implementation": "eager"})
    made._attn_implementation = made._experts_implementation = "eager"
    for key in dir(made):
        if "dropout" in key or key.endswith("pdrop"):
            setattr(made, key, 0.0)
    usual = transformers.AutoModelForCausalLM
    if made.is_encoder_decoder:
        usual = transformers.AutoModelForSeq2SeqLM
    head = HEADS.get(config["model_type"], usual)
    model = head.from_config(made, attn_implementation="eager") \
        .double().eval()
    with torch.no_grad():
        # What only takes part in a choice is a buffer.
        buffers = [(tensor, values) for tensor, values in model.named_buffers()
                   if "correction" in tensor]
        for tensor, values in list(model.named_parameters()) + buffers:
            values.copy_(torch.from_numpy(
                weights(tensor, tuple(values.shape))))
        draw = numpy.random.default_rng(len(name))
        if config["model_type"] == "vit":
            out, given = pictures(model, draw)
            labels = draw.integers(0, out.logits.shape[-1], (BATCH, 1))
        else:
            out, given, labels = words(model, draw)
        logits = out.logits.double()
        loss = torch.nn.functional.cross_entropy(
            logits.reshape(-1, logits.shape[-1]),
            torch.from_numpy(labels.reshape(-1)))
        if out.get("aux_loss") is not None:
            loss += model.router_aux_loss_coef * out.aux_loss
    written = json.loads(made.to_json_string(use_diff=False))
    return {"name": name,
            "config": {key: value for key, value in written.items()
                       if key not in LACKING.get(name, [])},
            "buffers": [{"name": tensor, "shape": list(values.shape)}
                        for tensor, values in buffers], **given,
            "labels": labels.tolist(), "loss": round(float(loss), 9),
            "logits": [[[float(f"{x:.9g}") for x in row] for row in rows]
                       for rows in logits.tolist()]}


def answers():
    transformers.logging.set_verbosity_error()
    return [answer(name, config) for name, config in CASES.items()]


def record():
    yield "transformers/steps", {
        "format": "shardc.runtimes.steps/v1",
        "versions": records.versions("transformers", "torch"),
        "cases": answers()}
