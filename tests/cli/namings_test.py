"""`check` and `cost` give the same answers under every naming of a tree: the
same parameters under words that the program is sure of, and under words of a few
frameworks only. Findings are equal, and figures are equal or not known. So are
they where the axes of the mesh have other published names. Under names without a
meaning, no finding is silent and no figure is known.

The trees, their names and those of the axes are drawn; SHARDC_SEED draws others."""

import json
import os
import random
import shutil
import tempfile
import unittest

from driver import Case, run

class Sizes:
    """The sizes of a drawn model."""

    def __init__(self, draw):
        self.size = draw.choice((32, 64))
        self.heads = draw.choice((8, 12, 16))
        self.kv_heads = draw.choice((4, self.heads))
        self.width = draw.choice((384, 512, 768, 1024))
        self.inner = draw.choice((2, 3, 4)) * self.width
        self.vocabulary = draw.choice((32000, 50304))
        self.layers = draw.choice((2, 3, 4))
        self.experts = draw.choice((4, 8))
        self.expert_inner = draw.choice((256, 640))

    def config(self, layers):
        # No described family has this type: its names would be evidence too.
        return {"model_type": "drosk", "hidden_size": self.width,
                "num_attention_heads": self.heads,
                "num_key_value_heads": self.kv_heads, "head_dim": self.size,
                "intermediate_size": self.inner,
                "vocab_size": self.vocabulary, "num_hidden_layers": layers,
                "num_local_experts": self.experts, "num_experts_per_tok": 2,
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

    def __init__(self, sizes, layers=None):
        self.params, self.sizes = {}, sizes
        self.layers = layers or sizes.layers

    def add(self, what, shape, spec, layer=None, top="", leaf="weight",
            dtype="BF16"):
        self.params[what, layer, top, leaf] = (shape, dtype, spec)

    def ends(self):
        for what in ("embed", "head"):
            self.add(what, [self.sizes.vocabulary, self.sizes.width],
                     ["tp", "fsdp"])

    def block(self, layer, top="", heads=None, add=None):
        add, own = add or self.add, self.sizes
        kv_heads = heads or own.kv_heads
        heads = heads or own.heads
        for what, out in (("q", heads), ("k", kv_heads), ("v", kv_heads)):
            add(f"attn.{what}", [out * own.size, own.width], ["tp", "fsdp"],
                layer, top)
        add("attn.o", [own.width, heads * own.size], ["fsdp", "tp"], layer, top)
        self.norms(layer, top, add)

    def mlp(self, layer, top="", inner=None, path="mlp", add=None):
        add, own = add or self.add, self.sizes
        inner = inner or own.inner
        for what in ("gate", "up"):
            add(f"{path}.{what}", [inner, own.width], ["tp", "fsdp"], layer,
                top)
        add(f"{path}.down", [own.width, inner], ["fsdp", "tp"], layer, top)

    def norms(self, layer, top="", add=None):
        for what in ("input_layernorm", "post_attention_layernorm"):
            (add or self.add)(what, [self.sizes.width], [None], layer, top)

    def written(self, naming, axes=None):
        """The manifest, and a rule for each parameter over all layers.
        `axes` has the names of the mesh's axes, if they have others."""
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
            rules[f"^{pattern}$"] = [axes[one] if axes and one else one
                                     for one in spec]
        lines = ["version: 1", 'separator: "."', "rules:"]
        lines += [f"  - {{match: '{match}', spec: {json.dumps(spec)}}}"
                  for match, spec in rules.items()]
        return ({"schema": "shardc.manifest/v1", "params": manifest},
                "\n".join(lines) + "\n")

    def key_of(self, naming):
        return {naming.name(what, layer, top, leaf): (what, layer, top, leaf)
                for what, layer, top, leaf in self.params}


def dense(sizes):
    tree = Tree(sizes)
    tree.ends()
    for layer in range(tree.layers):
        tree.block(layer)
        tree.mlp(layer)
    return tree


def fused(sizes):
    tree = Tree(sizes)
    tree.ends()
    for layer in range(tree.layers):
        tree.add("attn.qkv",
                 [(sizes.heads + 2 * sizes.kv_heads) * sizes.size, sizes.width],
                 ["tp", "fsdp"], layer)
        tree.add("attn.o", [sizes.width, sizes.heads * sizes.size],
                 ["fsdp", "tp"], layer)
        tree.norms(layer)
        tree.mlp(layer)
    return tree


def experts(sizes):
    tree = Tree(sizes)
    tree.ends()
    for layer in range(tree.layers):
        tree.block(layer)
        tree.add("mlp.router", [sizes.experts, sizes.width], [None, "fsdp"],
                 layer)
        for expert in range(sizes.experts):
            tree.mlp(layer, inner=sizes.expert_inner,
                     path=f"mlp.experts.{expert}")
    return tree


def latent(sizes):
    tree = Tree(sizes)
    tree.ends()
    for layer in range(tree.layers):
        for what, shape, spec in (
                ("q_a", [192, sizes.width], [None, "fsdp"]),
                ("q_b", [sizes.heads * 96, 192], ["tp", "fsdp"]),
                ("kv_a", [128 + 32, sizes.width], [None, "fsdp"]),
                ("kv_b", [sizes.heads * 128, 128], ["tp", "fsdp"]),
                ("o", [sizes.width, sizes.heads * 64], ["fsdp", "tp"])):
            tree.add(f"attn.{what}", shape, spec, layer)
        tree.norms(layer)
        tree.mlp(layer)
    return tree


def hybrid(sizes):
    """Layers without attention, which have a mixer."""
    tree = Tree(sizes, sizes.layers + 2)
    tree.ends()
    for layer in range(tree.layers):
        if layer % 2 == 0:
            tree.block(layer)
        else:
            width = 2 * sizes.width
            tree.add("mamba.in_proj", [2 * width + 32, sizes.width],
                     [None, "fsdp"], layer)
            tree.add("mamba.out_proj", [sizes.width, width], ["fsdp", None],
                     layer)
            tree.add("mamba.A_log", [16], [None], layer, leaf="weight")
            tree.norms(layer)
        tree.mlp(layer)
    return tree


def adapted(sizes):
    """Adapters, whose parts over the rank are split."""
    tree = dense(sizes)
    for layer in range(tree.layers):
        for what, out in (("q", sizes.heads), ("v", sizes.kv_heads)):
            tree.add(f"attn.{what}.lora_A", [8, sizes.width], ["tp", "fsdp"],
                     layer)
            tree.add(f"attn.{what}.lora_B", [out * sizes.size, 8],
                     ["tp", None], layer)
    return tree


def quantised(sizes):
    """Scales for blocks of 128 inputs, which are split elsewhere."""
    tree = dense(sizes)
    for (what, layer, top, leaf), (shape, _, spec) in list(tree.params.items()):
        if len(shape) != 2 or layer is None:
            continue
        tree.add(what, shape, spec, layer, top, dtype="F8_E4M3")
        tree.add(what, [shape[0], shape[1] // 128], [None, "tp"], layer, top,
                 leaf="weight_scale", dtype="F32")
    return tree


def stacked(sizes):
    tree = Tree(sizes)
    tree.ends()

    def add(what, shape, spec, layer=None, top=""):
        tree.add(what, [tree.layers, *shape], [None, *spec], layer, top)

    tree.block(None, add=add)
    tree.mlp(None, add=add)
    return tree


def towers(sizes):
    tree = dense(sizes)
    for layer in range(2):
        tree.block(layer, "vision_tower.", heads=6)
        tree.mlp(layer, "vision_tower.", inner=1024)
    return tree


KINDS = (dense, fused, experts, latent, hybrid, adapted, quantised, stacked,
         towers)
# How many trees are drawn, and namings and names of axes for each of them.
TREES, NAMINGS = 40, 5
PUBLISHED = 3  # of the names of axes; the others have no meaning


def turned(tree, *roles):
    """The tree with the specs of these roles reversed: a planted fault."""
    for key, (shape, dtype, spec) in tree.params.items():
        if key[0].rpartition(".")[2] in roles and key[3] == "weight":
            tree.params[key] = (shape, dtype, spec[:-2] + spec[:-3:-1])
    return tree


FAULTS = ((), ("o",), ("down",), ("q", "k", "v", "qkv"), ("gate",))
MESHES = ({"fsdp": 2, "tp": 4}, {"fsdp": 2, "tp": 16})
# Names of axes that published systems use: of the batch with sharded weights,
# and of tensor parallelism.
BATCHES = ("data", "dp_shard", "zero", "replica", "shard", "batch")
TENSORS = ("tensor", "model", "mp", "mdl", "tensor_parallel")
# The findings that hold if an axis is one of tensor parallelism.
CONDITIONAL = ("SHD260", "SHD261")


def figures(cost):
    """The bytes of a step, each by what it is; nothing if they are not known."""
    return None if cost["not_known"] else {
        "memory": cost["memory"], "communication": cost["communication"]}


class Namings(Case):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.seed = int(os.environ.get("SHARDC_SEED", "71"))
        self.draw = random.Random(self.seed)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def answers(self, tree, naming, mesh, axes=None):
        """The findings by what their parameters are, and the figures with the
        axes under their usual names."""
        manifest, rules = tree.written(naming, axes)
        config = tree.sizes.config(tree.layers)
        names = axes or {axis: axis for axis in mesh}
        words = ("--no-project", "--mesh",
                 ",".join(f"{names[axis]}:{size}"
                          for axis, size in mesh.items()), "--rules",
                 self.write("rules.yaml", rules), "--manifest",
                 self.write("m.json", json.dumps(manifest)), "--model",
                 self.write("config.json", json.dumps(config)),
                 "--batch", 64, "--format", "json", "-q")
        keys = tree.key_of(naming)
        found = sorted(
            (one["code"], one["level"],
             sorted(map(str, (keys[name] for name in one["params"]))),
             one["message"] if one["code"] in CONDITIONAL else "")
            for one in run("check", *words).json())
        cost = run("cost", *words, "--seq", 128)
        if not cost.out:
            return found, None
        text = cost.out
        for usual, name in names.items():
            text = text.replace(f'"{name}"', f'"{usual}"')
        return found, figures(json.loads(text))

    def drawn(self):
        """The trees, each with a planted fault or none."""
        for index in range(TREES):
            make = KINDS[index % len(KINDS)]
            fault = self.draw.choice(FAULTS)
            yield (f"{index} {make.__name__} {' '.join(fault)}",
                   turned(make(Sizes(self.draw)), *fault),
                   self.draw.choice(MESHES))

    def test_findings_and_figures_are_those_of_the_first_naming(self):
        codes, known = set(), 0
        for what, tree, mesh in self.drawn():
            want, figure = self.answers(tree, Naming(), mesh)
            codes.update(code for code, *_ in want)
            for _ in range(NAMINGS):
                naming = Naming(self.draw)
                with self.subTest(tree=what, mesh=mesh, names=vars(naming),
                                  sizes=vars(tree.sizes), seed=self.seed):
                    found, other = self.answers(tree, naming, mesh)
                    self.assertEqual(found, want)
                    if other is not None:
                        known += 1
                        self.assertEqual(other, figure)
        # The trees have faults that `check` finds, and known figures.
        self.assertIn("SHD220", codes)
        self.assertGreater(known, 0)

    def test_the_names_of_axes(self):
        """Under published names, findings and figures are those of the usual
        names. Under other names no finding is silent and no figure known."""
        known = open_ = 0
        for what, tree, mesh in self.drawn():
            want, figure = self.answers(tree, Naming(), mesh)
            for index in range(NAMINGS):
                published = index < PUBLISHED
                axes = {"fsdp": self.draw.choice(BATCHES),
                        "tp": self.draw.choice(TENSORS)}
                if not published:
                    axes = {axis: "".join(self.draw.choices("bcghjkmnrvwz",
                                                            k=6))
                            for axis in mesh}
                with self.subTest(tree=what, mesh=mesh, axes=axes,
                                  sizes=vars(tree.sizes), seed=self.seed):
                    found, other = self.answers(tree, Naming(), mesh, axes)
                    if published:
                        self.assertEqual(found, want)
                        self.assertEqual(other, figure)
                        known += other is not None
                        continue
                    self.assertIsNone(other)
                    codes = {one[0] for one in found}
                    notes = " ".join(one[3] for one in found)
                    silent = {code for code, *_ in want
                              if code not in codes and code not in notes}
                    self.assertEqual(silent, set())
                    self.assertLessEqual(codes - set(CONDITIONAL),
                                         {one[0] for one in want})
                    open_ += bool(codes & set(CONDITIONAL))
        self.assertGreater(known, 0)
        self.assertGreater(open_, 0)


if __name__ == "__main__":
    unittest.main()
