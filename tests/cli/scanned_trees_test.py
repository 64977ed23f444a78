"""Trees whose layers a scan stacks, drawn at random: the container's names, the
position and the size of the dimension of layers (also the number of heads, of KV
heads, of columns or of experts), norms, biases, optimizer states, nested scans,
two stacks of different lengths. `suggest` never splits layers, splits heads, the
feed-forward width and experts; SHD224 finds each parameter whose layers are split;
`--rules auto` fits packs to their trees. Trees without stacked layers have none."""

import json
import os
import random
import shutil
import tempfile
import unittest

from driver import Case, run

WORDS = ("alpha", "chapter", "river", "stone", "tower", "rung", "stratum",
         "core", "spine", "ladder", "segment", "verses")
# Attention, its projections, feed-forward, its projections, norms.
NAMES = {
    "own": ("lookback", "query", "key", "value", "out", "mull", "gate", "up",
            "down", "calm", "hush"),
    "hf": ("self_attn", "q_proj", "k_proj", "v_proj", "o_proj", "mlp",
           "gate_proj", "up_proj", "down_proj", "input_layernorm",
           "post_attention_layernorm"),
    "t5": ("attention", "query", "key", "value", "out", "mlp", "wi_0", "wi_1",
           "wo", "pre_norm", "post_norm"),
    "meta": ("mixer", "wq", "wk", "wv", "wo", "ffn", "w1", "w3", "w2", "norm1",
             "norm2"),
}


class Parameter:
    def __init__(self, shape, tensor=None, experts=None):
        self.shape = list(shape)
        self.layers = []
        self.tensor = tensor  # the dimension that tp has to split
        self.experts = experts

    def stacked(self, layers, axis):
        """A copy with the dimension of layers at `axis`."""
        rank = len(self.shape) + 1
        at = min(axis if axis >= 0 else rank + axis, rank - 1)
        moved = [None if dim is None else dim + (dim >= at)
                 for dim in (self.tensor, self.experts)]
        out = Parameter([*self.shape[:at], layers, *self.shape[at:]], *moved)
        out.layers = sorted([at, *(dim + (dim >= at) for dim in self.layers)])
        return out


class Model:
    """Sizes and names, drawn at random."""

    def __init__(self, draw):
        self.names = draw.choice(list(NAMES))
        self.width = draw.choice((256, 512, 768, 1024))
        self.columns = draw.choice((32, 64))
        self.heads = self.width // self.columns
        self.kv_heads = draw.choice((self.heads, self.heads // 2))
        self.inner = draw.choice((2 * self.width, 4 * self.width, 2816))
        self.experts = draw.choice((0, 0, 4, 8, 16))
        self.by_heads = draw.random() < 0.5
        self.leaf = draw.choice(("/kernel", "/w", ""))
        self.norm = draw.choice(("scale", "g", None))
        self.biased = not self.experts and draw.random() < 0.3
        self.axis = draw.choice((0, 0, 1) if self.experts else (0, 0, 1, -1))

    def layer(self):
        """Parameters of one layer."""
        width, inner, columns = self.width, self.inner, self.columns
        attention, q, k, v, o, mlp, gate, up, down, *norms = NAMES[self.names]
        out = {}
        for name, heads in ((q, self.heads), (k, self.kv_heads),
                            (v, self.kv_heads)):
            # Without a config.json the KV heads of a matrix are a guess.
            split = 1 if self.by_heads or name == q else None
            out[f"{attention}/{name}{self.leaf}"] = Parameter(
                [width, heads, columns] if self.by_heads
                else [width, heads * columns], split)
        out[f"{attention}/{o}{self.leaf}"] = Parameter(
            [self.heads, columns, width] if self.by_heads
            else [self.heads * columns, width], 0)
        for name, shape, tensor in ((gate, [width, inner], 1),
                                    (up, [width, inner], 1),
                                    (down, [inner, width], 0)):
            path = f"{mlp}/{name}{self.leaf}"
            if self.experts:
                out[path] = Parameter([self.experts, *shape], tensor + 1, 0)
            else:
                out[path] = Parameter(shape, tensor)
            if self.biased:
                out[f"{mlp}/{name}/bias"] = Parameter([shape[1]])
        if self.experts:
            out[f"{mlp}/router{self.leaf}"] = Parameter([width, self.experts])
        for name in norms if self.norm else ():
            out[f"{name}/{self.norm}"] = Parameter([width])
        return out

    def sizes(self):
        """Numbers of layers that are easily mistaken for other sizes."""
        return [size for size in (2, 5, 12, 24, self.heads, self.kv_heads,
                                  self.columns, self.experts) if size > 1]


def below(path, parameters):
    return {f"{path}/{name}": one for name, one in parameters.items()}


def scanned_tree(draw):
    model = Model(draw)
    words = draw.sample(WORDS, 6)
    tree = {"words/embedding": Parameter([32000, model.width], 0)}
    if draw.random() < 0.5:
        tree["last/scale"] = Parameter([model.width])
    for i in range(draw.choice((1, 1, 2))):
        layers = draw.choice(model.sizes())
        stack = {name: one.stacked(layers, model.axis)
                 for name, one in model.layer().items()}
        if model.axis == 0 and layers != 3 and draw.random() < 0.15:
            stack = {name: one.stacked(3, 0) for name, one in stack.items()}
        path = "/".join(words[2 * i:2 * i + draw.choice((1, 2))])
        tree.update(below(path, stack))
    if draw.random() < 0.2:
        tree = {**below("params", tree), **below("opt_state/0/mu", tree),
                **below("opt_state/0/nu", tree),
                "opt_state/0/count": Parameter([])}
    return model, tree


def axes_of(entry):
    return [entry] if isinstance(entry, str) else entry or []


class ScannedTrees(Case):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w",
                  encoding="utf-8") as file:
            file.write(text)

    def run_here(self, *words, rc=0):
        return self.check(run(*words, cwd=self.folder), rc)

    def write_tree(self, tree):
        self.write("tree.json", json.dumps({
            "schema": "shardc.manifest/v1", "separator": "/", "params": {
                name: {"shape": one.shape, "dtype": "BF16"}
                for name, one in tree.items()}}))

    def specs(self, mesh, rules):
        done = self.run_here("plan", "-q", "--mesh", mesh, "--rules", rules,
                             "--manifest", "tree.json")
        return {name: one["spec"] + [None] * (
            len(one["shape"]) - len(one["spec"]))
            for name, one in done.json()["params"].items()}

    def check_specs(self, tree, specs):
        """Layers are unsharded, and tp splits the dimension that it should."""
        for name, one in tree.items():
            spec = [axes_of(entry) for entry in specs[name]]
            param = (name, one.shape, specs[name])
            for dim in one.layers:
                self.assertEqual(spec[dim], [], param)
            if one.tensor is not None:
                self.assertEqual([dim for dim, axes in enumerate(spec)
                                  if "tp" in axes], [one.tensor], param)
            if one.experts is not None:
                self.assertIn("ep", spec[one.experts], param)

    def check_split(self, tree):
        """SHD224 for each parameter whose layers are split."""
        stacked = {name: one for name, one in tree.items() if one.layers}
        layers = min(one.shape[one.layers[0]] for one in stacked.values())
        stacked = {name: one for name, one in stacked.items()
                   if one.shape[one.layers[0]] % layers == 0}
        rules = ["version: 1", "separator: '/'", "rules:"]
        for name, one in stacked.items():
            spec = ", ".join("TP" if dim == one.layers[0] else "null"
                             for dim in range(len(one.shape)))
            rules += [f"  - match: '^{name}$'", f"    spec: [{spec}]"]
        self.write("split.yaml", "\n".join(
            [*rules, "  - match: '.'", "    spec: Replicated", ""]))
        done = self.run_here(
            "check", "--mesh", f"tp:{layers}", "--rules", "split.yaml",
            "--manifest", "tree.json", "--format", "json", "--select",
            "SHD224")
        found = {name for one in done.json() for name in one["params"]}
        self.assertEqual(found, set(stacked))

    def test_stacks_are_found_whatever_they_are_called(self):
        for seed in range(60):
            model, tree = scanned_tree(random.Random(seed))
            mesh = "fsdp:4,tp:2" + (",ep:2" if model.experts else "")
            with self.subTest(seed=seed, **vars(model)):
                self.write_tree(tree)
                self.run_here("suggest", "--mesh", mesh, "--manifest",
                              "tree.json", "-o", f"{seed}.yaml")
                self.check_specs(tree, self.specs(mesh, f"{seed}.yaml"))
                self.check_split(tree)

    def test_packs_fit_stacks_of_their_own_names(self):
        for seed in range(20):
            draw = random.Random(seed)
            model = Model(draw)
            model.names, model.experts = draw.choice(("hf", "t5")), 0
            model.leaf, model.norm, model.biased = "/kernel", "scale", False
            model.axis = draw.choice((0, 1, -1))
            model.by_heads = True
            layers = draw.choice(model.sizes())
            stack = {name: one.stacked(layers, model.axis)
                     for name, one in model.layer().items()}
            if model.names == "hf":
                tree = {**below("model/layers", stack),
                        "model/embed_tokens/embedding": Parameter(
                            [32000, model.width], 0),
                        "model/norm/scale": Parameter([model.width])}
            else:  # MaxText's
                tree = {
                    "params/decoder/layers/" + name.replace(
                        "attention", "self_attention").replace(
                        "_norm", "_self_attention_layer_norm"): one
                    for name, one in stack.items()}
                tree["params/token_embedder/embedding"] = Parameter(
                    [32000, model.width], 0)
                tree["params/decoder/decoder_norm/scale"] = Parameter(
                    [model.width])
            with self.subTest(seed=seed, layers=layers, **vars(model)):
                self.write_tree(tree)
                self.check_specs(tree, self.specs("fsdp:4,tp:2", "auto"))

    def test_slices_of_scanned_projections_are_no_finding(self):
        """`tp` does not divide 12 heads, so `suggest` splits the width."""
        self.write("config.json", json.dumps({
            "num_attention_heads": 12, "hidden_size": 768,
            "num_hidden_layers": 24, "intermediate_size": 3072}))
        layer = {**{f"self_attn/{name}_proj/kernel": Parameter([768, 768])
                    for name in "qkvo"},
                 "mlp/up_proj/kernel": Parameter([768, 3072]),
                 "mlp/down_proj/kernel": Parameter([3072, 768]),
                 "norm/scale": Parameter([768])}
        for axis in (0, 1):
            with self.subTest(axis=axis):
                self.write_tree(below("layers", {
                    name: one.stacked(24, axis)
                    for name, one in layer.items()}))
                inputs = ["--mesh", "tp:8", "--manifest", "tree.json",
                          "--model", "config.json"]
                self.run_here("suggest", *inputs, "--force", "-o",
                              "rules.yaml")
                with open(os.path.join(self.folder, "rules.yaml"),
                          encoding="utf-8") as file:
                    self.assertIn("ignore[SHD214]", file.read())
                done = self.run_here("check", *inputs, "--rules", "rules.yaml",
                                     "--format", "json", "--select",
                                     "SHD214,SHD226,SHD227,SHD228")
                self.assertEqual(done.json(), [])

    def test_layers_that_lints_do_not_find_get_no_comment(self):
        """Only --scan-axis decides that the first dimension counts layers, so
        that SHD214 does not judge these projections."""
        self.write("config.json", json.dumps({
            "num_attention_heads": 12, "hidden_size": 768}))
        inputs = ["--mesh", "tp:8", "--manifest", "tree.json",
                  "--model", "config.json"]
        for layers in (1, 1200):
            with self.subTest(layers=layers):
                self.write_tree(below("river/self_attn", {
                    f"{name}_proj/kernel":
                        Parameter([768, 768]).stacked(layers, 0)
                    for name in "qkvo"}))
                self.run_here("suggest", *inputs, "--scan-axis", "0",
                              "--force", "-o", "rules.yaml")
                done = self.run_here("check", *inputs, "--rules", "rules.yaml",
                                     "--format", "json", "--select",
                                     "SHD214,SHD190")
                self.assertEqual(done.json(), [])

    def test_layers_with_numbers_are_no_stacks(self):
        for seed in range(40):
            draw = random.Random(seed)
            model = Model(draw)
            tree = {"words/embedding": Parameter([32000, model.width])}
            for i in range(draw.choice((1, 3))):
                tree.update(below(f"verses/{i}", model.layer()))
            with self.subTest(seed=seed, **vars(model)):
                self.write_tree(tree)
                done = self.run_here("suggest", "--mesh", "fsdp:4,tp:2",
                                     "--manifest", "tree.json", "--force")
                self.assertNotIn("canned layers", done.out)
                self.assertNotIn("undecided", done.err)


if __name__ == "__main__":
    unittest.main()
