"""Small siblings of published models, in the names of Hugging Face, and the meshes
and modes for which their steps are compiled."""

import collections
import json
import os

import shardc_answers

LENGTH, LAYERS, WIDTH = 128, 2, 256
BASE = {"hidden_size": WIDTH, "intermediate_size": 768,
        "num_hidden_layers": LAYERS, "num_attention_heads": 8,
        "num_key_value_heads": 4, "head_dim": 32, "vocab_size": 2048,
        "rms_norm_eps": 1e-6, "layer_norm_eps": 1e-6,
        "layer_norm_epsilon": 1e-6, "norm_epsilon": 1e-6, "rope_theta": 10000.0,
        "rotary_pct": 1.0, "tie_word_embeddings": False,
        "max_position_embeddings": 256}
EXPERTS = {"num_local_experts": 8, "num_experts_per_tok": 2}
LATENT = {"kv_lora_rank": 64, "q_lora_rank": 96, "qk_nope_head_dim": 32,
          "qk_rope_head_dim": 16, "v_head_dim": 32, "num_key_value_heads": 8,
          "head_dim": 16, "n_routed_experts": 8, "num_experts_per_tok": 2,
          "n_shared_experts": 1, "moe_intermediate_size": 256,
          "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1,
          "num_nextn_predict_layers": 0}
WINDOWS = {"sliding_window": 32}


def sibling(family, model_type, net=None, **own):
    """The row of xla_nets.FAMILIES, what else the JAX program needs to know, and
    the config.json."""
    return family, net or {}, {**BASE, "model_type": model_type, **own}


ROUTED, ONE = {"experts": 8, "top_k": 2}, {"experts": 8, "top_k": 1}
MODELS = {
    "llama": sibling("llama", "llama"),
    "llama, 2 KV heads": sibling("llama", "llama", num_key_value_heads=2),
    "qwen2": sibling("llama", "qwen2"),
    "qwen3": sibling("llama", "qwen3", tie_word_embeddings=True),
    "phi3": sibling("phi3", "phi3", pad_token_id=0),
    "mixtral": sibling("mixtral", "mixtral", ROUTED, **EXPERTS),
    "qwen2_moe": sibling(
        "qwen2_moe", "qwen2_moe", ROUTED, num_experts=8, num_experts_per_tok=2,
        moe_intermediate_size=256, shared_expert_intermediate_size=512),
    "qwen3_moe": sibling(
        "mixtral", "qwen3_moe", ROUTED, num_experts=8, num_experts_per_tok=2,
        moe_intermediate_size=256),
    "gpt_oss": sibling("gpt_oss", "gpt_oss", {**ROUTED, "windows": 2},
                       **EXPERTS, **WINDOWS),
    "deepseek_v2": sibling("deepseek", "deepseek_v2", ROUTED,
                           **{**LATENT, "q_lora_rank": None}),
    "deepseek_v3": sibling("deepseek", "deepseek_v3", ROUTED, **LATENT),
    "gemma2": sibling("gemma2", "gemma2", {"windows": 2},
                      tie_word_embeddings=True, attn_logit_softcapping=50.0,
                      final_logit_softcapping=30.0, query_pre_attn_scalar=32,
                      **WINDOWS),
    "gemma3": sibling("gemma2", "gemma3_text", {"windows": 2},
                      tie_word_embeddings=True, sliding_window_pattern=2,
                      **WINDOWS),
    "gpt_neox": sibling("gpt_neox", "gpt_neox", num_key_value_heads=8),
    "gpt2": sibling("gpt2", "gpt2", n_embd=WIDTH, n_head=8, n_layer=LAYERS,
                    n_inner=768, n_positions=256, num_key_value_heads=8,
                    tie_word_embeddings=True),
    "falcon": sibling("falcon", "falcon", num_key_value_heads=1,
                      multi_query=True, new_decoder_architecture=False,
                      parallel_attn=True, bias=False, alibi=False,
                      ffn_hidden_size=768, tie_word_embeddings=True),
    "olmo2": sibling("olmo2", "olmo2"),
    "cohere": sibling("cohere", "cohere", tie_word_embeddings=True,
                      logit_scale=0.0625),
    "starcoder2": sibling("starcoder2", "starcoder2", tie_word_embeddings=True),
    "llama4": sibling("llama4", "llama4_text", ONE, num_local_experts=8,
                      num_experts_per_tok=1, intermediate_size=256,
                      intermediate_size_mlp=512, interleave_moe_layer_step=1),
    "granitemoe": sibling("granitemoe", "granitemoe", ROUTED,
                          **{**EXPERTS, "intermediate_size": 256}),
}
# Their packs state that runtimes split fused matrices part by part.
BY_PART = {"mixtral", "qwen2_moe", "qwen3_moe", "deepseek_v2", "deepseek_v3",
           "llama4", "granitemoe"}
# tp does not divide the KV heads, which every device then has.
FEW = {"llama, 2 KV heads", "falcon"}
SERVING = ("prefill", "decode")
ALL = ("train", *SERVING)
SENDS = {"batch": ["fsdp", "dp", "ep"]}


def cases():
    for model in MODELS:
        for mode in SERVING if model in FEW else ALL:
            yield model, {"tp": 4}, mode, {}
    for model in ("llama", "qwen3", "gemma2", "gpt_neox", "olmo2", "cohere"):
        for mode in ALL:
            yield model, {"fsdp": 2, "tp": 4}, mode, {}
    for model in ("mixtral", "gpt_oss"):
        for mode in SERVING:
            yield model, {"fsdp": 2, "tp": 4}, mode, {}
    for model in ("llama", "mixtral", "deepseek_v3"):
        for mode in ALL if model != "deepseek_v3" else ("train", "prefill"):
            yield model, {"fsdp": 8}, mode, {}
    for model in ("mixtral", "gpt_oss", "deepseek_v3"):
        for mode in SERVING:
            yield model, {"ep": 4, "tp": 2}, mode, SENDS
    for mode in SERVING:
        yield "mixtral", {"fsdp": 2, "ep": 2, "tp": 2}, mode, SENDS
    for model in ("llama", "gpt_neox", "qwen3"):
        for mode in ("train", "prefill"):
            yield model, {"sp": 8}, mode, {}
    for model in ("mixtral", "qwen2_moe"):
        yield model, {"fsdp": 2, "sp": 4}, "prefill", {}


def axes_of(entry):
    return [] if entry is None else [entry] if isinstance(entry, str) else \
        list(entry)


class Asked:
    """A case as shardc's inputs, in a folder."""

    def __init__(self, model, mesh, mode, axes, folder):
        self.model, self.mesh, self.mode = model, mesh, mode
        self.family, self.net, self.config = MODELS[model]
        self.by_part = model in BY_PART
        self.batch = 64 if mode == "decode" else 16
        at = lambda name: os.path.join(folder, name)
        shardc_answers.write(at("config.json"), self.config)
        axes = {**axes, **({"kv_head": None} if model in FEW else {})}
        shardc_answers.write(at("rules.yaml"), {
            "version": 1, "separator": ".", "rules": [],
            **({"axes": axes} if axes else {})})
        made = ["--no-project", "--model", at("config.json")]
        self.manifest = self.say("show", "manifest", *made, "--weights-dtype",
                                 "float32", "--format", "json")
        shardc_answers.write(at("manifest.json"), self.manifest)
        self.inputs = [*made, "--manifest", at("manifest.json"), "--mesh",
                       ",".join(f"{a}:{n}" for a, n in mesh.items()),
                       "--rules", at("rules.yaml"), "--rules", "auto"]

    @staticmethod
    def say(*args):
        return json.loads(shardc_answers.run(*args).stdout)

    def plan(self):
        return self.say("plan", *self.inputs)

    def cost(self):
        return self.say(
            "cost", *self.inputs, "--mode", self.mode, "--batch",
            str(self.batch), "--seq", str(LENGTH), "--kv-len", str(LENGTH),
            "--dtype", "float32", "--kv-dtype", "float32", "--format", "json")

    def over(self, axes):
        return "+".join(a for a in self.mesh if a in axes_of(axes))

    def sent(self, cost):
        """Bytes by collective and axes, without those of a single number."""
        out = collections.Counter()
        for one in cost["communication"]:
            if one["bytes_per_device"] > 8 * one["count"]:
                out[f"{one['collective']} {self.over(one['axes'])}"] += \
                    one["bytes_per_device"]
        return out

    def kept(self):
        """The same of the training step that keeps what it has gathered, as a
        compiled program without a loop does."""
        (report,) = self.say(
            "verify", "step", *self.inputs, "--mode", "train",
            "--keep-gathered", "--batch", str(self.batch), "--seq", str(LENGTH),
            "--activation-dtype", "float32", "--format", "json")["steps"]
        out = collections.Counter()
        for op in report["ops"]:
            if op["collective"] is not None and op["result"] != "[]":
                out[f"{op['collective']} {self.over(op['axes'])}"] += \
                    op["bytes_per_device"] * op["layers"]
        return out
