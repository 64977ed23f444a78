"""Published models: their configurations where no config.json of theirs is
in testdata/configs, as far as it decides the tree."""

import json
import os

from records import ROOT

CONFIGS = os.path.join(ROOT, "testdata", "configs")
# Their code is not in transformers, or they are another's copies.
NOT_OURS = ("qwen-72b",)

# name: class, model type, and what differs from the class's defaults.
MODELS = {
    "albert-base-v2": ("AlbertForMaskedLM", "albert", {
        "embedding_size": 128, "hidden_size": 768, "intermediate_size": 3072,
        "num_attention_heads": 12, "num_hidden_layers": 12,
        "vocab_size": 30000}),
    "bart-large": ("BartForConditionalGeneration", "bart", {}),
    "bert-base-uncased": ("BertForMaskedLM", "bert", {}),
    "bert-large-uncased": ("BertForMaskedLM", "bert", {
        "hidden_size": 1024, "intermediate_size": 4096,
        "num_attention_heads": 16, "num_hidden_layers": 24}),
    "bloom-560m": ("BloomForCausalLM", "bloom", {
        "hidden_size": 1024, "n_head": 16, "n_layer": 24,
        "vocab_size": 250880}),
    "bloom-1b1": ("BloomForCausalLM", "bloom", {
        "hidden_size": 1536, "n_head": 16, "n_layer": 24,
        "vocab_size": 250880}),
    "bloom-1b7": ("BloomForCausalLM", "bloom", {
        "hidden_size": 2048, "n_head": 16, "n_layer": 24,
        "vocab_size": 250880}),
    "bloom-3b": ("BloomForCausalLM", "bloom", {
        "hidden_size": 2560, "n_head": 32, "n_layer": 30,
        "vocab_size": 250880}),
    "bloom-7b1": ("BloomForCausalLM", "bloom", {
        "hidden_size": 4096, "n_head": 32, "n_layer": 30,
        "vocab_size": 250880}),
    "c4ai-command-r-v01": ("CohereForCausalLM", "cohere", {}),
    "c4ai-command-r7b": ("Cohere2ForCausalLM", "cohere2", {
        "hidden_size": 4096, "intermediate_size": 14336,
        "num_attention_heads": 32, "num_hidden_layers": 32,
        "num_key_value_heads": 8, "vocab_size": 256000}),
    "codegen-350m": ("CodeGenForCausalLM", "codegen", {
        "n_embd": 1024, "n_head": 16, "n_layer": 20, "n_positions": 2048,
        "rotary_dim": 32, "vocab_size": 51200}),
    "dbrx-base": ("DbrxForCausalLM", "dbrx", {
        "d_model": 6144, "n_heads": 48, "n_layers": 40,
        "max_seq_len": 32768, "vocab_size": 100352,
        "attn_config": {"clip_qkv": 8, "kv_n_heads": 8, "rope_theta": 5e5},
        "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16,
                       "moe_top_k": 4}}),
    "deepseek-v2": ("DeepseekV2ForCausalLM", "deepseek_v2", {
        "hidden_size": 5120, "intermediate_size": 12288,
        "moe_intermediate_size": 1536, "num_hidden_layers": 60,
        "num_attention_heads": 128, "num_key_value_heads": 128,
        "n_shared_experts": 2, "n_routed_experts": 160, "n_group": 8,
        "topk_group": 3, "num_experts_per_tok": 6, "q_lora_rank": 1536,
        "kv_lora_rank": 512, "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64, "v_head_dim": 128,
        "first_k_dense_replace": 1, "vocab_size": 102400}),
    "deepseek-v2-lite": ("DeepseekV2ForCausalLM", "deepseek_v2", {
        "hidden_size": 2048, "intermediate_size": 10944,
        "moe_intermediate_size": 1408, "num_hidden_layers": 27,
        "num_attention_heads": 16, "num_key_value_heads": 16,
        "n_shared_experts": 2, "n_routed_experts": 64, "n_group": 1,
        "topk_group": 1, "num_experts_per_tok": 6, "q_lora_rank": None,
        "kv_lora_rank": 512, "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64, "v_head_dim": 128,
        "first_k_dense_replace": 1, "vocab_size": 102400}),
    "distilbert-base-uncased": ("DistilBertForMaskedLM", "distilbert", {}),
    "falcon-mamba-7b": ("FalconMambaForCausalLM", "falcon_mamba", {
        "hidden_size": 4096, "intermediate_size": 8192,
        "num_hidden_layers": 64, "state_size": 16, "vocab_size": 65024,
        "tie_word_embeddings": False}),
    "gemma-7b": ("GemmaForCausalLM", "gemma", {}),
    "gemma-2-27b": ("Gemma2ForCausalLM", "gemma2", {
        "head_dim": 128, "hidden_size": 4608, "intermediate_size": 36864,
        "num_attention_heads": 32, "num_hidden_layers": 46,
        "num_key_value_heads": 16, "query_pre_attn_scalar": 144}),
    "glm-4-9b-0414": ("Glm4ForCausalLM", "glm4", {}),
    "glm-4.5-air": ("Glm4MoeForCausalLM", "glm4_moe", {
        "attention_bias": True, "head_dim": 128}),
    "gpt-neo-1.3b": ("GPTNeoForCausalLM", "gpt_neo", {}),
    "gpt-neo-2.7b": ("GPTNeoForCausalLM", "gpt_neo", {
        "attention_types": [[["global", "local"], 16]],
        "hidden_size": 2560, "num_heads": 20, "num_layers": 32}),
    "granite-3.0-8b-base": ("GraniteForCausalLM", "granite", {
        "hidden_size": 4096, "intermediate_size": 12800,
        "num_attention_heads": 32, "num_hidden_layers": 40,
        "num_key_value_heads": 8, "tie_word_embeddings": True,
        "vocab_size": 49155}),
    "jamba-v0.1": ("JambaForCausalLM", "jamba", {}),
    "llava-1.5-7b": ("LlavaForConditionalGeneration", "llava", {
        "text_config": {"model_type": "llama", "vocab_size": 32064,
                        "max_position_embeddings": 4096}}),
    "llama-3.2-3b": ("LlamaForCausalLM", "llama", {
        "head_dim": 128, "hidden_size": 3072, "intermediate_size": 8192,
        "num_attention_heads": 24, "num_hidden_layers": 28,
        "num_key_value_heads": 8, "tie_word_embeddings": True,
        "vocab_size": 128256}),
    "mamba-130m": ("MambaForCausalLM", "mamba", {
        "hidden_size": 768, "num_hidden_layers": 24}),
    "mamba-2.8b": ("MambaForCausalLM", "mamba", {
        "hidden_size": 2560, "num_hidden_layers": 64}),
    "minitron-8b": ("NemotronForCausalLM", "nemotron", {
        "hidden_size": 4096, "intermediate_size": 16384,
        "num_attention_heads": 48, "head_dim": 128,
        "num_hidden_layers": 32, "num_key_value_heads": 8,
        "vocab_size": 256000}),
    "ministral-8b": ("MistralForCausalLM", "mistral", {
        "head_dim": 128, "hidden_size": 4096, "intermediate_size": 12288,
        "num_attention_heads": 32, "num_hidden_layers": 36,
        "num_key_value_heads": 8, "vocab_size": 131072}),
    "mistral-7b-v0.1": ("MistralForCausalLM", "mistral", {}),
    "mistral-nemo-12b": ("MistralForCausalLM", "mistral", {
        "head_dim": 128, "hidden_size": 5120, "intermediate_size": 14336,
        "num_attention_heads": 32, "num_hidden_layers": 40,
        "num_key_value_heads": 8, "vocab_size": 131072}),
    "modernbert-base": ("ModernBertForMaskedLM", "modernbert", {}),
    "mpt-7b": ("MptForCausalLM", "mpt", {
        "d_model": 4096, "n_heads": 32, "n_layers": 32,
        "vocab_size": 50432}),
    "mt5-small": ("MT5ForConditionalGeneration", "mt5", {}),
    "olmo-1b": ("OlmoForCausalLM", "olmo", {
        "hidden_size": 2048, "intermediate_size": 8192,
        "num_attention_heads": 16, "num_hidden_layers": 16,
        "tie_word_embeddings": True}),
    "olmo-7b": ("OlmoForCausalLM", "olmo", {}),
    "olmo-2-7b": ("Olmo2ForCausalLM", "olmo2", {"vocab_size": 100352}),
    "olmo-2-13b": ("Olmo2ForCausalLM", "olmo2", {
        "hidden_size": 5120, "intermediate_size": 13824,
        "num_attention_heads": 40, "num_hidden_layers": 40,
        "vocab_size": 100352}),
    "olmoe-1b-7b": ("OlmoeForCausalLM", "olmoe", {
        "hidden_size": 2048, "intermediate_size": 1024,
        "num_attention_heads": 16, "num_hidden_layers": 16,
        "num_experts": 64, "num_experts_per_tok": 8, "vocab_size": 50304}),
    "opt-125m": ("OPTForCausalLM", "opt", {}),
    "opt-350m": ("OPTForCausalLM", "opt", {
        "do_layer_norm_before": False, "ffn_dim": 4096,
        "hidden_size": 1024, "num_attention_heads": 16,
        "num_hidden_layers": 24, "word_embed_proj_dim": 512}),
    "opt-66b": ("OPTForCausalLM", "opt", {
        "ffn_dim": 36864, "hidden_size": 9216, "num_attention_heads": 72,
        "num_hidden_layers": 64, "word_embed_proj_dim": 9216}),
    "phi-1.5": ("PhiForCausalLM", "phi", {}),
    "phi-3-mini": ("Phi3ForCausalLM", "phi3", {}),
    "phi-3-medium": ("Phi3ForCausalLM", "phi3", {
        "hidden_size": 5120, "intermediate_size": 17920,
        "num_attention_heads": 40, "num_hidden_layers": 40,
        "num_key_value_heads": 10}),
    "phi-3.5-moe": ("PhimoeForCausalLM", "phimoe", {
        "attention_bias": True, "lm_head_bias": True}),
    "phi-4": ("Phi3ForCausalLM", "phi3", {
        "hidden_size": 5120, "intermediate_size": 17920,
        "num_attention_heads": 40, "num_hidden_layers": 40,
        "num_key_value_heads": 10, "pad_token_id": 100349,
        "vocab_size": 100352}),
    "qwen1.5-moe-a2.7b": ("Qwen2MoeForCausalLM", "qwen2_moe", {}),
    "qwen2-57b-a14b": ("Qwen2MoeForCausalLM", "qwen2_moe", {
        "hidden_size": 3584, "intermediate_size": 18944,
        "moe_intermediate_size": 2560, "num_attention_heads": 28,
        "num_experts": 64, "num_experts_per_tok": 8,
        "num_hidden_layers": 28, "num_key_value_heads": 4,
        "shared_expert_intermediate_size": 20480, "vocab_size": 151936}),
    "qwen2.5-72b": ("Qwen2ForCausalLM", "qwen2", {
        "hidden_size": 8192, "intermediate_size": 29568,
        "num_attention_heads": 64, "num_hidden_layers": 80,
        "num_key_value_heads": 8, "vocab_size": 152064}),
    "qwen3-next-80b-a3b": ("Qwen3NextForCausalLM", "qwen3_next", {}),
    "roberta-base": ("RobertaForMaskedLM", "roberta", {
        "max_position_embeddings": 514, "type_vocab_size": 1,
        "vocab_size": 50265}),
    "siglip-base-patch16-224": ("SiglipModel", "siglip", {}),
    "smollm3-3b": ("SmolLM3ForCausalLM", "smollm3", {}),
    "stablelm-3b-4e1t": ("StableLmForCausalLM", "stablelm", {}),
    "stablelm-2-1.6b": ("StableLmForCausalLM", "stablelm", {
        "hidden_size": 2048, "intermediate_size": 5632,
        "num_attention_heads": 32, "num_hidden_layers": 24,
        "num_key_value_heads": 32, "use_qkv_bias": True,
        "vocab_size": 100352}),
    "stablelm-2-12b": ("StableLmForCausalLM", "stablelm", {
        "hidden_size": 5120, "intermediate_size": 13824,
        "num_attention_heads": 32, "num_hidden_layers": 40,
        "num_key_value_heads": 8, "qk_layernorm": True,
        "use_parallel_residual": True, "vocab_size": 100352}),
    "starcoder": ("GPTBigCodeForCausalLM", "gpt_bigcode", {
        "n_embd": 6144, "n_head": 48, "n_inner": 24576, "n_layer": 40,
        "n_positions": 8192, "vocab_size": 49152}),
    "starcoder2-3b": ("Starcoder2ForCausalLM", "starcoder2", {}),
    "starcoder2-7b": ("Starcoder2ForCausalLM", "starcoder2", {
        "hidden_size": 4608, "intermediate_size": 18432,
        "num_attention_heads": 36, "num_hidden_layers": 32,
        "num_key_value_heads": 4, "vocab_size": 49152}),
    "t5-base": ("T5ForConditionalGeneration", "t5", {
        "d_ff": 3072, "d_model": 768, "num_heads": 12, "num_layers": 12}),
    "t5-11b": ("T5ForConditionalGeneration", "t5", {
        "d_ff": 65536, "d_kv": 128, "d_model": 1024, "num_heads": 128,
        "num_layers": 24}),
    "t5-v1.1-base": ("T5ForConditionalGeneration", "t5", {
        "d_ff": 2048, "d_model": 768, "feed_forward_proj": "gated-gelu",
        "num_heads": 12, "num_layers": 12, "tie_word_embeddings": False}),
    "vit-base-patch16-224-in1k": ("ViTForImageClassification", "vit", {
        "num_labels": 1000}),
    "wav2vec2-base": ("Wav2Vec2Model", "wav2vec2", {}),
    "xlm-roberta-base": ("XLMRobertaForMaskedLM", "xlm-roberta", {
        "max_position_embeddings": 514, "type_vocab_size": 1,
        "vocab_size": 250002}),
    # EleutherAI's table of them gives their exact numbers of parameters.
    **{f"pythia-{name}": ("GPTNeoXForCausalLM", "gpt_neox", {
        "hidden_size": hidden, "intermediate_size": 4 * hidden,
        "max_position_embeddings": 2048, "num_attention_heads": heads,
        "num_hidden_layers": layers, "vocab_size": vocabulary})
       for name, hidden, heads, layers, vocabulary in (
           ("70m", 512, 8, 6, 50304), ("160m", 768, 12, 12, 50304),
           ("410m", 1024, 16, 24, 50304), ("1b", 2048, 8, 16, 50304),
           ("1.4b", 2048, 16, 24, 50304), ("2.8b", 2560, 32, 32, 50304),
           ("6.9b", 4096, 32, 32, 50432), ("12b", 5120, 40, 36, 50688))},
}

CARD = "the model's card or paper"
FILES = "the elements in its published files"
COUNTED = "as many who loaded it say"

# Total numbers of parameters, where an exact one is published.
PUBLISHED = {
    "bert-base-uncased": (109514298, COUNTED),
    "bloom-1b1": (1065314304, CARD),
    "bloom-3b": (3002557440, CARD),
    "bloom-560m": (559214592, COUNTED),
    "bloom-7b1": (7069016064, COUNTED),
    "bloom-176b": (176247271424, CARD),
    "clip-vit-large-patch14": (427616513, COUNTED),
    "deepseek-v2": (235741434880, FILES),
    "deepseek-v3": (671026419200, FILES),
    "devstral-small-24b": (23572403200, FILES),
    "gemma-2b": (2506172416, FILES),
    "gemma-7b": (8537680896, FILES),
    "gemma-2-9b": (9241705984, FILES),
    "gemma-3-27b": (27432406640, FILES),
    "gpt-j-6b": (6053381344, CARD),
    "gpt-neox-20b": (20554567680, CARD),
    "gpt-oss-20b": (20914757184, COUNTED),
    "gpt-oss-120b": (116829156672, COUNTED),
    "gpt2": (124439808, COUNTED),
    "gpt2-xl": (1557611200, COUNTED),
    "llama-2-7b": (6738415616, FILES),
    "llama-2-13b": (13015864320, COUNTED),
    "llama-2-70b": (68976648192, COUNTED),
    "llama-3-8b": (8030261248, FILES),
    "llama-3-70b": (70553706496, FILES),
    "llama-3.1-8b": (8030261248, FILES),
    "llama-3.1-70b": (70553706496, FILES),
    "llama-3.1-405b": (405853388800, FILES),
    "llama-3.2-1b": (1235814400, FILES),
    "llama-3.2-3b": (3212749824, FILES),
    "mamba-2.8b": (2768345600, COUNTED),
    "mistral-7b": (7248023552, FILES),
    "mistral-7b-v0.1": (7241732096, FILES),
    "mistral-nemo-12b": (12247782400, FILES),
    "mixtral-8x7b": (46702792704, FILES),
    "mixtral-8x22b": (140620634112, FILES),
    "mt5-small": (300176768, COUNTED),
    "olmo-2-7b": (7298617344, FILES),
    "olmoe-1b-7b": (6919161856, FILES),
    "phi-3-mini": (3821079552, COUNTED),
    "phi-4": (14659507200, FILES),
    "pythia-70m": (70426624, CARD),
    "pythia-160m": (162322944, CARD),
    "pythia-410m": (405334016, CARD),
    "pythia-1b": (1011781632, CARD),
    "pythia-1.4b": (1414647808, CARD),
    "pythia-2.8b": (2775208960, CARD),
    "pythia-6.9b": (6857302016, CARD),
    "pythia-12b": (11846072320, CARD),
    "qwen1.5-moe-a2.7b": (14315784192, FILES),
    "qwen2-7b": (7615616512, FILES),
    "qwen2.5-72b": (72706203648, FILES),
    "qwen3-8b": (8190735360, FILES),
    "qwen3-32b": (32762123264, FILES),
    "qwen3-30b-a3b": (30532122624, FILES),
    "qwen3-235b-a22b": (235093634560, FILES),
    "qwen3-next-80b-a3b": (79674391296, FILES),
    "stablelm-2-1.6b": (1644417024, CARD),
    "stablelm-2-12b": (12143605760, CARD),
    "stablelm-3b-4e1t": (2795443200, CARD),
    "t5-small": (60506624, COUNTED),
    "t5-v1.1-base": (247577856, COUNTED),
    "vit-base-patch16-224-in1k": (86567656, COUNTED),
    "whisper-large-v3": (1543490560, COUNTED),
}

# Why transformers' model has another number than was published.
DIFFERENCES = {
    "deepseek-v3": "its 58 correction biases of 256 are buffers here",
    "gpt-j-6b": "its card counts norms, second biases and an embedding bias "
                "once for each of the 8 parts it was trained in: 610 times "
                "4096 more",
    "mt5-small": "transformers 5 ties lm_head to the embedding, which the "
                 "files hold apart: 250112 times 512 less",
    "stablelm-2-1.6b": "its card leaves out 24 times 4096, two vectors per "
                       "layer; the elements in its files are as here",
    "stablelm-2-12b": "its card counts 41 layer norms (weight and bias of "
                      "5120) that the parallel residual does without",
    "t5-v1.1-base": "transformers 5 ties lm_head to the embedding, which the "
                    "files hold apart: 32128 times 768 less",
}


def file_of(name):
    return os.path.join(CONFIGS, name + ".config.json")


def names():
    """Of all published models: those with a file first."""
    files = sorted(file.removesuffix(".config.json")
                   for file in os.listdir(CONFIGS))
    return [name for name in files
            if name not in NOT_OURS and ".alt-" not in name] + list(MODELS)


def given(name):
    """A config.json, and the file it is from or nothing."""
    if os.path.exists(file_of(name)):
        with open(file_of(name), encoding="utf-8") as file:
            return json.load(file), f"configs/{name}.config.json"
    kind, model_type, more = MODELS[name]
    return {"architectures": [kind], "model_type": model_type, **more}, None
