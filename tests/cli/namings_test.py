"""`check` and `cost` give the same answers under every naming of a tree: the
same parameters under words that the program is sure of, and under words of a few
frameworks only. Findings are equal, and figures are equal or not known."""

import json
import os
import random
import shutil
import tempfile
import unittest

from driver import Case, run

WIDTH, HEADS, KV_HEADS, SIZE, INNER, VOCABULARY, LAYERS = (
    512, 8, 4, 64, 1536, 32000, 3)
EXPERTS, EXPERT_INNER = 4, 384
# No described family has this type: its names would be evidence too.
CONFIG = {"model_type": "drosk", "hidden_size": WIDTH,
          "num_attention_heads": HEADS,
          "num_key_value_heads": KV_HEADS, "head_dim": SIZE,
          "intermediate_size": INNER, "vocab_size": VOCABULARY,
          "num_local_experts": EXPERTS, "num_experts_per_tok": 2,
          "tie_word_embeddings": False}

# The words of a naming, in the same order as those of the first one.
LAYER_WORDS = ("model.layers", "transformer.blocks", "decoder.layers",
               "backbone.h")
ATTENTION_WORDS = ("self_attn", "attn", "attention")
MLP_WORDS = ("mlp", "feed_forward", "ffn")
PROJECTIONS = (
    ("q_proj", "k_proj", "v_proj", "o_proj", "qkv_proj"),
    ("wq", "wk", "wv", "wo", "Wqkv"),
    ("query", "key", "value", "out_proj", "qkv"),
    ("to_q", "to_k", "to_v", "to_out", "to_qkv"),
    ("q_lin", "k_lin", "v_lin", "out_lin", "in_proj_qkv"),
    ("query_layer", "key_layer", "value_layer", "out_projection", "to_qkv"),
    ("w_q", "w_k", "w_v", "w_o", "w_qkv"))
FEED_FORWARD = (
    ("gate_proj", "up_proj", "down_proj"),
    ("w1", "w3", "w2"),
    ("wi_0", "wi_1", "wo"),
    ("ffn_gate", "ffn_up", "ffn_down"),
    ("gate_linear", "up_linear", "down_linear"))
ENDS = (("model.embed_tokens", "lm_head"), ("tok_embeddings", "output"),
        ("token_embd", "output"), ("token_embedder", "logits_dense"),
        ("embed", "head"))
LATENT = (("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj"),
          ("wq_a", "wq_b", "wkv_a", "wkv_b"))
ROUTERS = ("gate", "router", "ffn_gate_inp")


class Naming:
    """Names of parameters by what they are: `attn.q` of layer 1."""

    def __init__(self, draw=None):
        pick = draw.choice if draw else lambda words: words[0]
        self.layers, self.attn = pick(LAYER_WORDS), pick(ATTENTION_WORDS)
        self.mlp, self.router = pick(MLP_WORDS), pick(ROUTERS)
        self.words = dict(zip(("q", "k", "v", "o", "qkv"), pick(PROJECTIONS)))
        self.words |= dict(zip(("gate", "up", "down"), pick(FEED_FORWARD)))
        self.words |= dict(zip(("embed", "head"), pick(ENDS)))
        self.words |= dict(zip(("q_a", "q_b", "kv_a", "kv_b"), pick(LATENT)))

    def name(self, what, layer=None, top="", leaf="weight"):
        """`what` has the role last: `attn.q`, `mlp.experts.0.up`, `head`."""
        if layer is None and what in ("embed", "head"):
            return f"{self.words[what]}.{leaf}"
        parts = [{"attn": self.attn, "mlp": self.mlp, "router": self.router}
                 .get(part, self.words.get(part, part))
                 for part in what.split(".")]
        at = [] if layer is None else [str(layer)]
        return ".".join([top + self.layers, *at, *parts, leaf])


class Tree:
    """Parameters as (what, layer, top, leaf): (shape, dtype, spec)."""

    def __init__(self, layers=LAYERS):
        self.params, self.layers = {}, layers

    def add(self, what, shape, spec, layer=None, top="", leaf="weight",
            dtype="BF16"):
        self.params[what, layer, top, leaf] = (shape, dtype, spec)

    def ends(self):
        for what in ("embed", "head"):
            self.add(what, [VOCABULARY, WIDTH], ["tp", "fsdp"])

    def block(self, layer, top="", heads=HEADS, kv_heads=KV_HEADS, add=None):
        add = add or self.add
        for what, out in (("q", heads), ("k", kv_heads), ("v", kv_heads)):
            add(f"attn.{what}", [out * SIZE, WIDTH], ["tp", "fsdp"], layer, top)
        add("attn.o", [WIDTH, heads * SIZE], ["fsdp", "tp"], layer, top)
        self.norms(layer, top, add)

    def mlp(self, layer, top="", inner=INNER, path="mlp", add=None):
        add = add or self.add
        for what in ("gate", "up"):
            add(f"{path}.{what}", [inner, WIDTH], ["tp", "fsdp"], layer, top)
        add(f"{path}.down", [WIDTH, inner], ["fsdp", "tp"], layer, top)

    def norms(self, layer, top="", add=None):
        for what in ("input_layernorm", "post_attention_layernorm"):
            (add or self.add)(what, [WIDTH], [None], layer, top)

    def written(self, naming):
        """The manifest, and a rule for each parameter over all layers."""
        manifest, rules = {}, {}
        for (what, layer, top, leaf), (shape, dtype, spec) in \
                self.params.items():
            name = naming.name(what, layer, top, leaf)
            assert name not in manifest, name
            manifest[name] = {"shape": shape, "dtype": dtype}
            pattern = name.replace(".", r"\.")
            if layer is not None:
                stem = (top + naming.layers).replace(".", r"\.")
                pattern = pattern.replace(f"{stem}\\.{layer}\\.",
                                          f"{stem}\\.\\d+\\.", 1)
            rules[f"^{pattern}$"] = spec
        lines = ["version: 1", 'separator: "."', "rules:"]
        lines += [f"  - {{match: '{match}', spec: {json.dumps(spec)}}}"
                  for match, spec in rules.items()]
        return ({"schema": "shardc.manifest/v1", "params": manifest},
                "\n".join(lines) + "\n")

    def key_of(self, naming):
        return {naming.name(what, layer, top, leaf): (what, layer, top, leaf)
                for what, layer, top, leaf in self.params}


def dense():
    tree = Tree()
    tree.ends()
    for layer in range(LAYERS):
        tree.block(layer)
        tree.mlp(layer)
    return tree


def fused():
    tree = Tree()
    tree.ends()
    for layer in range(LAYERS):
        tree.add("attn.qkv", [(HEADS + 2 * KV_HEADS) * SIZE, WIDTH],
                 ["tp", "fsdp"], layer)
        tree.add("attn.o", [WIDTH, HEADS * SIZE], ["fsdp", "tp"], layer)
        tree.norms(layer)
        tree.mlp(layer)
    return tree


def experts():
    tree = Tree()
    tree.ends()
    for layer in range(LAYERS):
        tree.block(layer)
        tree.add("mlp.router", [EXPERTS, WIDTH], [None, "fsdp"], layer)
        for expert in range(EXPERTS):
            tree.mlp(layer, inner=EXPERT_INNER, path=f"mlp.experts.{expert}")
    return tree


def latent():
    tree = Tree()
    tree.ends()
    for layer in range(LAYERS):
        for what, shape, spec in (
                ("q_a", [192, WIDTH], [None, "fsdp"]),
                ("q_b", [HEADS * 96, 192], ["tp", "fsdp"]),
                ("kv_a", [128 + 32, WIDTH], [None, "fsdp"]),
                ("kv_b", [HEADS * 128, 128], ["tp", "fsdp"]),
                ("o", [WIDTH, HEADS * 64], ["fsdp", "tp"])):
            tree.add(f"attn.{what}", shape, spec, layer)
        tree.norms(layer)
        tree.mlp(layer)
    return tree


def hybrid():
    """Layers without attention, which have a mixer."""
    tree = Tree(LAYERS + 2)
    tree.ends()
    for layer in range(LAYERS + 2):
        if layer % 2 == 0:
            tree.block(layer)
        else:
            tree.add("mamba.in_proj", [2 * 1024 + 32, WIDTH], [None, "fsdp"],
                     layer)
            tree.add("mamba.out_proj", [WIDTH, 1024], ["fsdp", None], layer)
            tree.add("mamba.A_log", [16], [None], layer, leaf="weight")
            tree.norms(layer)
        tree.mlp(layer)
    return tree


def adapted():
    """Adapters, whose parts over the rank are split."""
    tree = dense()
    for layer in range(LAYERS):
        for what, out in (("q", HEADS), ("v", KV_HEADS)):
            tree.add(f"attn.{what}.lora_A", [8, WIDTH], ["tp", "fsdp"], layer)
            tree.add(f"attn.{what}.lora_B", [out * SIZE, 8], ["tp", None], layer)
    return tree


def quantised():
    """Scales for blocks of 128 inputs, which are split elsewhere."""
    tree = dense()
    for (what, layer, top, leaf), (shape, _, spec) in list(tree.params.items()):
        if len(shape) != 2 or layer is None:
            continue
        tree.add(what, shape, spec, layer, top, dtype="F8_E4M3")
        tree.add(what, [shape[0], shape[1] // 128], [None, "tp"], layer, top,
                 leaf="weight_scale", dtype="F32")
    return tree


def stacked():
    tree = Tree()
    tree.ends()

    def add(what, shape, spec, layer=None, top=""):
        tree.add(what, [LAYERS, *shape], [None, *spec], layer, top)

    tree.block(None, add=add)
    tree.mlp(None, add=add)
    return tree


def towers():
    tree = dense()
    for layer in range(2):
        tree.block(layer, "vision_tower.", heads=6, kv_heads=6)
        tree.mlp(layer, "vision_tower.", inner=1024)
    return tree


TREES = (dense, fused, experts, latent, hybrid, adapted, quantised, stacked,
         towers)


def turned(tree, *roles):
    """The tree with the specs of these roles reversed: a planted fault."""
    for key, (shape, dtype, spec) in tree.params.items():
        if key[0].rpartition(".")[2] in roles and key[3] == "weight":
            tree.params[key] = (shape, dtype, spec[:-2] + spec[:-3:-1])
    return tree


FAULTS = ((), ("o",), ("down",), ("q", "k", "v", "qkv"), ("gate",))
MESHES = ("fsdp:2,tp:4", "fsdp:2,tp:16")


def figures(cost):
    """The bytes of a step, each by what it is; nothing if they are not known."""
    return None if cost["not_known"] else {
        "memory": cost["memory"], "communication": cost["communication"]}


class Namings(Case):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def answers(self, tree, naming, mesh):
        """The findings by what their parameters are, and the figures."""
        manifest, rules = tree.written(naming)
        config = CONFIG | {"num_hidden_layers": tree.layers}
        words = ("--no-project", "--mesh", mesh, "--rules",
                 self.write("rules.yaml", rules), "--manifest",
                 self.write("m.json", json.dumps(manifest)), "--model",
                 self.write("config.json", json.dumps(config)),
                 "--batch", 64, "--format", "json", "-q")
        keys = tree.key_of(naming)
        found = sorted(
            (one["code"], one["level"],
             sorted(map(str, (keys[name] for name in one["params"]))))
            for one in run("check", *words).json())
        cost = run("cost", *words, "--seq", 128)
        return found, figures(cost.json()) if cost.out else None

    def test_findings_and_figures_are_those_of_the_first_naming(self):
        seed = int(os.environ.get("SHARDC_SEED", "71"))
        draw = random.Random(seed)
        codes, known = set(), 0
        for make in TREES:
            fault = draw.choice(FAULTS)
            for mesh in MESHES:
                tree = turned(make(), *fault)
                want, figure = self.answers(tree, Naming(), mesh)
                codes.update(code for code, *_ in want)
                for _ in range(4):
                    naming = Naming(draw)
                    with self.subTest(tree=make.__name__, fault=fault,
                                      mesh=mesh, names=vars(naming),
                                      seed=seed):
                        found, other = self.answers(tree, naming, mesh)
                        self.assertEqual(found, want)
                        if other is not None:
                            known += 1
                            self.assertEqual(other, figure)
        # The trees have faults that `check` finds, and known figures.
        self.assertIn("SHD220", codes)
        self.assertGreater(known, 0)


if __name__ == "__main__":
    unittest.main()
