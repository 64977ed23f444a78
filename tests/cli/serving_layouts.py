"""Layouts of serving engines as meshes and rules, for the tests of `cost --engine`.

A layout is (tp, dp, ep, moe_tp): attention is divided over tp devices in each
of dp ranks with their own requests, and experts over ep devices, each divided
over moe_tp. The devices are tp * dp = ep * moe_tp, the same ones for both.
"""

import json
import os

from driver import TESTDATA

# Sizes as published; files of the other models are in testdata/configs.
MINIMAX = {
    "architectures": ["MiniMaxM2ForCausalLM"], "model_type": "minimax_m2",
    "hidden_size": 3072, "intermediate_size": 1536, "num_hidden_layers": 62,
    "num_attention_heads": 48, "num_key_value_heads": 8, "head_dim": 128,
    "num_local_experts": 256, "num_experts_per_tok": 8, "vocab_size": 200064,
    "max_position_embeddings": 196608, "tie_word_embeddings": False,
    "torch_dtype": "bfloat16", "hidden_act": "silu"}
KIMI = {"model_type": "kimi_k2", "n_routed_experts": 384,
        "num_attention_heads": 64, "num_key_value_heads": 64,
        "first_k_dense_replace": 1, "vocab_size": 163840, "n_group": 1,
        "topk_group": 1, "num_nextn_predict_layers": 0}
# The config, the rules that a layout extends, and the KV heads (1 for latent
# rows, which every device has).
MODELS = {
    "Llama-3.x-70B": ("llama-3.1-70b", "llama", 8),
    "Llama-3.1-8B": ("llama-3.1-8b", "llama", 8),
    "Qwen3-32B": ("qwen3-32b", "llama", 8),
    "Qwen3-235B-A22B": ("qwen3-235b-a22b", "qwen_moe", 4),
    "gpt-oss-120b": ("gpt-oss-120b", "gpt_oss", 8),
    "MiniMax-M2.5": (MINIMAX, "qwen_moe", 8),
    "DeepSeek-V3/R1": ("deepseek-v3", "deepseek", 1),
    "Kimi-K2.5": (KIMI, "deepseek", 1),
    "Llama-3.2-1B": ("llama-3.2-1b", "llama", 8),
    "Qwen3-8B": ("qwen3-8b", "llama", 8),
    "Qwen3-30B-A3B": ("qwen3-30b-a3b", "qwen_moe", 4),
    "gpt-oss-20b": ("gpt-oss-20b", "gpt_oss", 8),
}


def config(name):
    source = MODELS[name][0]
    if source is MINIMAX:
        return source
    own = source if source is KIMI else {}
    file = "deepseek-v3" if own else source
    with open(os.path.join(TESTDATA, "configs", file + ".config.json"),
              encoding="utf-8") as text:
        out = {**json.load(text), **own}
    out.pop("quantization_config", None)
    return out


def listed(axes):
    return "[" + ", ".join(axes) + "]"


def layout(pack, heads, norms_by_head, tp, dp, ep, moe_tp):
    """The mesh and the rules of a layout."""
    if dp == 1 and ep == 1:
        mesh, batch, attention, experts, inner = f"tp:{tp}", [], ["tp"], [], \
            ["tp"]
    elif dp == 1:
        mesh = f"ex:{ep},tp:{moe_tp}"
        batch, attention, experts, inner = [], ["ex", "tp"], ["ex"], ["tp"]
    elif ep == tp * dp:
        mesh = f"ex:{dp},tp:{tp}"
        batch, attention, experts, inner = ["ex"], ["tp"], ["ex", "tp"], []
    elif ep == 1 and moe_tp == 1:
        mesh, batch, attention, experts, inner = f"dp:{dp},tp:{tp}", ["dp"], \
            ["tp"], [], []
    else:
        return None
    kv = "kv_replicate: true\n" if tp > heads > 1 else ""
    columns = f"[{listed(experts)}, {listed(inner)}, null]"
    rows = f"[{listed(experts)}, null, {listed(inner)}]"
    # MiniMax's norms are over all heads; those of Qwen3 are over one.
    norms = "self_attn\\.(q|k)_norm" if norms_by_head else "^$"
    if pack == "gpt_oss":
        columns, rows = rows, columns
    return mesh, f"""\
version: 1
extends: builtin:{pack}/hf
{kv}axes: {{batch: {listed(batch)}, head: {listed(attention)},
  kv_head: {listed(attention)}, vocab: {listed(attention)},
  mlp_intermediate: {listed(attention)}, expert: {listed(experts)}}}
rules:
  - match: 'experts\\.gate_up_proj$'
    spec: {columns}
  - match: 'experts\\.down_proj$'
    spec: {rows}
  - match: '{norms}'
    spec: [{listed(attention)}]
  - match: 'experts\\.gate_up_proj_bias$'
    spec: [{listed(experts)}, {listed(inner)}]
  - match: 'experts\\.down_proj_bias$'
    spec: [{listed(experts)}, null]
"""


class Folder:
    """Writes configs and rules, each once, and returns the arguments of `cost`."""

    def __init__(self, path):
        self.path = path

    def file(self, name, text):
        path = os.path.join(self.path, name.replace("/", "-"))
        if not os.path.exists(path):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return path

    def inputs(self, model, shape):
        made = layout(*MODELS[model][1:], model == "MiniMax-M2.5", *shape)
        if made is None:
            return None
        mesh, rules = made
        name = "-".join(map(str, (model, *shape)))
        return ["--mesh", mesh, "--rules", self.file(name + ".yaml", rules),
                "--model", self.file(model + ".json",
                                     json.dumps(config(model))),
                "--weights-dtype", "bfloat16", "--no-project"]
