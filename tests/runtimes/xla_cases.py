"""Training steps that XLA and shardc both compile: models, meshes and the axes
that rules set in addition to a pack's."""

import json
import os
import re

import records
import shardc_answers

COMMON = {"num_hidden_layers": 2, "num_attention_heads": 8,
          "num_key_value_heads": 4, "rms_norm_eps": 1e-6,
          "rope_theta": 10000.0, "tie_word_embeddings": False}
SIZES = {"counted": {"vocab_size": 2048, "hidden_size": 256,
                     "intermediate_size": 768, "head_dim": 32},
         "computed": {"vocab_size": 32, "hidden_size": 16,
                      "intermediate_size": 32, "head_dim": 4}}
TOKENS = {"counted": (32, 128), "computed": (16, 8)}
# What a pack's config has in addition.
PACKS = {"llama": {}, "gpt2": {},
         "mixtral": {"num_local_experts": 8, "num_experts_per_tok": 2},
         "gemma": {"model_type": "gemma2", "tie_word_embeddings": True,
                   "query_pre_attn_scalar": 24, "sliding_window": 5,
                   "attn_logit_softcapping": 50.0,
                   "final_logit_softcapping": 30.0}}
WHOLE = {"hidden_state": None}
SPREAD = {**WHOLE, "batch": ["fsdp", "dp", "ep"]}
# A case: the pack, the mesh, the axes that rules add to the pack's.
CASES = [
    {"name": "llama fsdp8", "pack": "llama", "mesh": {"fsdp": 8},
     "axes": WHOLE},
    {"name": "llama dp2 tp4", "pack": "llama", "mesh": {"dp": 2, "tp": 4},
     "axes": WHOLE},
    {"name": "llama dp2 fsdp2 tp2", "pack": "llama",
     "mesh": {"dp": 2, "fsdp": 2, "tp": 2}, "axes": WHOLE},
    {"name": "llama dp2 fsdp2 tp2, residual over tp", "pack": "llama",
     "mesh": {"dp": 2, "fsdp": 2, "tp": 2}, "axes": {}},
    {"name": "llama fsdp4 tp4", "pack": "llama",
     "mesh": {"fsdp": 4, "tp": 4}, "axes": WHOLE},
    {"name": "llama fsdp2 sp2 tp4", "pack": "llama",
     "mesh": {"fsdp": 2, "sp": 2, "tp": 4}, "axes": WHOLE},
    {"name": "mixtral fsdp2 ep4", "pack": "mixtral",
     "mesh": {"fsdp": 2, "ep": 4}, "axes": SPREAD},
    {"name": "mixtral fsdp2 ep2 tp2", "pack": "mixtral",
     "mesh": {"fsdp": 2, "ep": 2, "tp": 2}, "axes": SPREAD},
    {"name": "mixtral fsdp4 ep4", "pack": "mixtral",
     "mesh": {"fsdp": 4, "ep": 4}, "axes": SPREAD},
    {"name": "mixtral dp2 fsdp2 ep2 tp2", "pack": "mixtral",
     "mesh": {"dp": 2, "fsdp": 2, "ep": 2, "tp": 2}, "axes": SPREAD},
    # Where the partitioner is left to choose, it chooses otherwise.
    {"name": "llama dp2 fsdp2 tp2, activations free", "pack": "llama",
     "mesh": {"dp": 2, "fsdp": 2, "tp": 2}, "axes": WHOLE, "free": "anchors"},
    {"name": "llama dp2 fsdp2 tp2, lookup by gather", "pack": "llama",
     "mesh": {"dp": 2, "fsdp": 2, "tp": 2}, "axes": WHOLE, "free": "lookup"},
    {"name": "mixtral fsdp2 ep2 tp2, batch without ep", "pack": "mixtral",
     "mesh": {"fsdp": 2, "ep": 2, "tp": 2}, "axes": WHOLE, "free": "batch"},
    {"name": "mixtral fsdp2 ep2 tp2, activations free", "pack": "mixtral",
     "mesh": {"fsdp": 2, "ep": 2, "tp": 2}, "axes": SPREAD,
     "free": "anchors"},
    {"name": "gpt2 dp2 tp4, fused", "pack": "gpt2", "mesh": {"dp": 2, "tp": 4},
     "axes": WHOLE, "free": "fused"},
    {"name": "gpt2 dp2 fsdp2 tp2, fused", "pack": "gpt2",
     "mesh": {"dp": 2, "fsdp": 2, "tp": 2}, "axes": WHOLE, "free": "fused"},
    # Attention by KV heads, which repeats no keys.
    {"name": "llama fsdp2 sp2 tp4, grouped", "pack": "llama",
     "mesh": {"fsdp": 2, "sp": 2, "tp": 4}, "axes": WHOLE, "grouped": True},
    {"name": "llama sp4 tp2, grouped", "pack": "llama",
     "mesh": {"sp": 4, "tp": 2}, "axes": WHOLE, "grouped": True},
    {"name": "gemma fsdp8", "pack": "gemma", "mesh": {"fsdp": 8},
     "axes": WHOLE},
    {"name": "gemma dp2 tp4", "pack": "gemma", "mesh": {"dp": 2, "tp": 4},
     "axes": WHOLE},
    {"name": "gemma dp2 fsdp2 tp2", "pack": "gemma",
     "mesh": {"dp": 2, "fsdp": 2, "tp": 2}, "axes": WHOLE},
    {"name": "gpt2 fsdp8", "pack": "gpt2", "mesh": {"fsdp": 8},
     "axes": WHOLE},
    {"name": "gemma fsdp2 sp2 tp2", "pack": "gemma",
     "mesh": {"fsdp": 2, "sp": 2, "tp": 2}, "axes": WHOLE, "grouped": True},
    {"name": "gpt2 dp2 tp4, by part", "pack": "gpt2",
     "mesh": {"dp": 2, "tp": 4}, "axes": WHOLE, "by_part": True},
    {"name": "gpt2 tp8, by part", "pack": "gpt2", "mesh": {"tp": 8},
     "axes": WHOLE, "by_part": True},
]
# The same with layers stacked and scanned over. The partitioner's loops are read
# by `shardc audit`.
STACKED = [
    {"name": "llama dp2 fsdp2 tp2, stacked", "pack": "llama",
     "mesh": {"dp": 2, "fsdp": 2, "tp": 2}, "axes": WHOLE, "stacked": True},
    {"name": "llama fsdp8, stacked", "pack": "llama", "mesh": {"fsdp": 8},
     "axes": WHOLE, "stacked": True},
    {"name": "llama sp2 tp4, stacked", "pack": "llama",
     "mesh": {"sp": 2, "tp": 4}, "axes": WHOLE, "stacked": True,
     "grouped": True},
]


def llama_layer(config):
    d, f = config["hidden_size"], config["intermediate_size"]
    q = config["num_attention_heads"] * config["head_dim"]
    k = config["num_key_value_heads"] * config["head_dim"]
    return {"input_layernorm/kernel": [d], "self_attn/q_proj/kernel": [d, q],
            "self_attn/k_proj/kernel": [d, k],
            "self_attn/v_proj/kernel": [d, k],
            "self_attn/o_proj/kernel": [q, d],
            "post_attention_layernorm/kernel": [d],
            "mlp/gate_proj/kernel": [d, f], "mlp/up_proj/kernel": [d, f],
            "mlp/down_proj/kernel": [f, d]}


def mixtral_layer(config):
    d, f = config["hidden_size"], config["intermediate_size"]
    e = config["num_local_experts"]
    layer = {name: shape for name, shape in llama_layer(config).items()
             if not name.startswith("mlp/")}
    return {**layer, "block_sparse_moe/gate/kernel": [d, e],
            "block_sparse_moe/experts/w1/kernel": [e, d, f],
            "block_sparse_moe/experts/w3/kernel": [e, d, f],
            "block_sparse_moe/experts/w2/kernel": [e, f, d]}


def gemma_layer(config):
    d = config["hidden_size"]
    return {**llama_layer(config), "pre_feedforward_layernorm/kernel": [d],
            "post_feedforward_layernorm/kernel": [d]}


LAYERS = {"llama": llama_layer, "mixtral": mixtral_layer,
          "gemma": gemma_layer}


def gpt2_shapes(config):
    d, f = config["n_embd"], config["n_inner"]
    out = {"wte/embedding": [config["vocab_size"], d],
           "wpe/embedding": [config["n_positions"], d]}
    for i in range(config["n_layer"]):
        for name, n, m in (("attn/c_attn", 3 * d, d), ("attn/c_proj", d, d),
                           ("mlp/c_fc", f, d), ("mlp/c_proj", d, f)):
            out.update({f"h/{i}/{name}/kernel": [n, m],
                        f"h/{i}/{name}/bias": [n]})
        for name in ("ln_1", "ln_2"):
            out.update({f"h/{i}/{name}/{part}": [d]
                        for part in ("scale", "bias")})
    out.update({f"ln_f/{part}": [d] for part in ("scale", "bias")})
    return out


def shapes(case, use):
    """Parameters in flax's names."""
    config = config_of(case, use)
    if case["pack"] == "gpt2":
        return gpt2_shapes(config)
    d, v = config["hidden_size"], config["vocab_size"]
    layer = LAYERS[case["pack"]](config)
    layers = config["num_hidden_layers"]
    out = {"model/embed_tokens/embedding": [v, d]}
    if case.get("stacked"):
        out.update({f"model/layers/{name}": [layers, *shape]
                    for name, shape in layer.items()})
    for i in range(0 if case.get("stacked") else layers):
        out.update({f"model/layers/{i}/{name}": shape
                    for name, shape in layer.items()})
    out["model/norm/kernel"] = [d]
    if not config["tie_word_embeddings"]:
        out["lm_head/kernel"] = [d, v]
    return out


def config_of(case, use):
    sizes = SIZES[use]
    if case["pack"] == "gpt2":
        return {"model_type": "gpt2", "n_layer": COMMON["num_hidden_layers"],
                "n_head": COMMON["num_attention_heads"],
                "n_embd": sizes["hidden_size"],
                "n_inner": sizes["intermediate_size"],
                "vocab_size": sizes["vocab_size"],
                "n_positions": TOKENS[use][1], "layer_norm_epsilon": 1e-5}
    return {"model_type": case["pack"], **COMMON,
            "num_hidden_layers": case.get("layers",
                                          COMMON["num_hidden_layers"]),
            **sizes, **PACKS[case["pack"]]}


def program(name, stage=""):
    """The file of a case's program, partitioned or optimised."""
    slug = re.sub(r"[^a-z0-9]+", "_", name)
    return os.path.join(records.ROOT, "testdata", "audit", "steps",
                        f"{slug}{stage}.hlo.txt.gz")


def model_of(case):
    """The `model:` section, where the case has its own."""
    if not case.get("by_part"):
        return {}
    return {"model": {"extends": f"builtin:{case['pack']}/flax",
                      "fused": "by_part"}}


def slots(config, length):
    """Of an expert's queue, where routing is even."""
    return length * config.get("num_experts_per_tok", 0) // config.get(
        "num_local_experts", 1)


def manifest_of(shapes):
    return {"schema": "shardc.manifest/v1", "params": {
        name: {"shape": shape, "dtype": "F32"}
        for name, shape in shapes.items()}}


class Asked:
    """A case as shardc's inputs, in a folder."""

    def __init__(self, case, use, folder):
        self.case, self.use = case, use
        self.config = config_of(case, use)
        self.path = lambda name: os.path.join(folder, name)
        shardc_answers.write(self.path("config.json"), self.config)
        shardc_answers.write(self.path("manifest.json"),
                             manifest_of(shapes(case, use)))
        shardc_answers.write(self.path("rules.yaml"),
                             {"version": 1, "separator": "/", "rules": [],
                              **({"axes": case["axes"]} if case["axes"]
                                 else {}), **model_of(case)})
        self.rules = [
            "--mesh", ",".join(f"{a}:{n}" for a, n in case["mesh"].items()),
            "--rules", self.path("rules.yaml"),
            "--rules", "builtin:" + case["pack"] + "/flax"]
        self.model = ["--manifest", self.path("manifest.json"),
                      "--model", self.path("config.json")]

    def say(self, *args):
        return json.loads(shardc_answers.run(*args).stdout)

    def specs(self):
        plan = self.say("plan", *self.rules, *self.model)
        return {name: one["spec"] for name, one in plan["params"].items()}

    def semantic(self, token):
        spec = self.say("resolve", f"[{token}]", *self.rules, "--model",
                        self.path("config.json"), "--format", "json")["spec"]
        axes = spec[0] if spec else None
        return [axes] if isinstance(axes, str) else axes or []

    def step(self, batch, length, *flags):
        """The report of shardc for the step; `--regather` leaves out
        `--keep-gathered`."""
        flags = [flag for flag in flags if flag != "--regather"] if \
            "--regather" in flags else ["--keep-gathered", *flags]
        # The compiled steps compute in float32.
        return self.say("verify", "step", "--mode", "train", *flags,
                        "--activation-dtype", "float32", "--format", "json",
                        *self.rules, *self.model,
                        "--batch", str(batch), "--seq", str(length))
