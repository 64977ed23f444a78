"""Training steps that XLA and shardc both compile: models, meshes and the axes
that rules set in addition to a pack's."""

import json
import os

import shardc_answers

COMMON = {"num_hidden_layers": 2, "num_attention_heads": 8,
          "num_key_value_heads": 4, "rms_norm_eps": 1e-6,
          "rope_theta": 10000.0, "tie_word_embeddings": False}
SIZES = {"counted": {"vocab_size": 2048, "hidden_size": 256,
                     "intermediate_size": 768, "head_dim": 32},
         "computed": {"vocab_size": 32, "hidden_size": 16,
                      "intermediate_size": 32, "head_dim": 4}}
TOKENS = {"counted": (32, 128), "computed": (16, 8)}
EXPERTS = {"num_local_experts": 8, "num_experts_per_tok": 2}
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
]


def shapes(config):
    """Parameters in flax's names."""
    d, f = config["hidden_size"], config["intermediate_size"]
    q = config["num_attention_heads"] * config["head_dim"]
    k = config["num_key_value_heads"] * config["head_dim"]
    layer = {"input_layernorm/kernel": [d], "self_attn/q_proj/kernel": [d, q],
             "self_attn/k_proj/kernel": [d, k],
             "self_attn/v_proj/kernel": [d, k],
             "self_attn/o_proj/kernel": [q, d],
             "post_attention_layernorm/kernel": [d]}
    e = config.get("num_local_experts")
    if e:
        layer.update({"block_sparse_moe/gate/kernel": [d, e],
                      "block_sparse_moe/experts/w1/kernel": [e, d, f],
                      "block_sparse_moe/experts/w3/kernel": [e, d, f],
                      "block_sparse_moe/experts/w2/kernel": [e, f, d]})
    else:
        layer.update({"mlp/gate_proj/kernel": [d, f],
                      "mlp/up_proj/kernel": [d, f],
                      "mlp/down_proj/kernel": [f, d]})
    out = {"model/embed_tokens/embedding": [config["vocab_size"], d]}
    for i in range(config["num_hidden_layers"]):
        out.update({f"model/layers/{i}/{name}": shape
                    for name, shape in layer.items()})
    out["model/norm/kernel"] = [d]
    out["lm_head/kernel"] = [d, config["vocab_size"]]
    return out


def config_of(case, use):
    config = {"model_type": case["pack"], **COMMON, **SIZES[use]}
    if case["pack"] == "mixtral":
        config.update(EXPERTS)
    return config


def slots(config, length):
    """Of an expert's queue, where routing is even."""
    return length * config.get("num_experts_per_tok", 0) // config.get(
        "num_local_experts", 1)


def manifest_of(config):
    return {"schema": "shardc.manifest/v1", "params": {
        name: {"shape": shape, "dtype": "F32"}
        for name, shape in shapes(config).items()}}


class Asked:
    """A case as shardc's inputs, in a folder."""

    def __init__(self, case, use, folder):
        self.case, self.config = case, config_of(case, use)
        self.path = lambda name: os.path.join(folder, name)
        shardc_answers.write(self.path("config.json"), self.config)
        shardc_answers.write(self.path("manifest.json"),
                             manifest_of(self.config))
        shardc_answers.write(self.path("rules.yaml"),
                             {"version": 1, "separator": "/", "rules": [],
                              **({"axes": case["axes"]} if case["axes"]
                                 else {})})
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
        spec = self.say("resolve", f"[{token}]", *self.rules,
                        "--format", "json")["spec"]
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
