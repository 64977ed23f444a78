"""`suggest` and `check` on trees whose names show little: what neither names nor
sizes show is printed as not known, nothing is stated or chosen over it, and no
layer, head or column of a head is split without evidence."""

import json
import os
import random
import shutil
import tempfile
import unittest

from driver import TESTDATA, Case, run

REPORTS = os.path.join(TESTDATA, "reports")
FULL = os.path.join(REPORTS, "suggest-false-facts", "full.json")
CONFIG = os.path.join(REPORTS, "suggest-false-facts", "cfg.json")
KNOWN = ("query", "key", "value", "out", "gate", "up", "down")
WORDS = ("zorp", "blick", "snar", "quib", "morl", "dent", "fizz", "glub", "hask",
         "irn", "jolt", "krell", "lume", "nix", "ondo", "plim")


class Parameter:
    def __init__(self, shape, layers, heads=None, head_dim=None, columns=None):
        self.shape, self.layers = shape, layers
        # The number of heads, the dimension that counts them, and the dimension
        # of their columns.
        self.heads, self.head_dim, self.columns = heads, head_dim, columns


def stacked_tree(seed):
    """One or two stacks, with words that `shardc` knows or with others."""
    draw = random.Random(seed)
    size = draw.choice((64, 128))
    width = draw.choice((512, 1024, 2048))
    heads = width // size
    kv_heads = draw.choice((heads, max(1, heads // 4)))
    inner = draw.choice((4 * width, 2816))
    words = draw.sample(WORDS, 13)
    unlisted = draw.choice((0, 3, 4, 7))
    names = KNOWN[:7 - unlisted] + tuple(words[:unlisted])
    leaf = draw.choice(("", "/kernel", "/w"))
    has_columns = draw.random() < 0.7
    axis = draw.choice((0, 0, 1))
    norm = draw.choice(("scale", "g", None))
    tree = {"lex": Parameter([32000, width], None)}

    def add(path, shape, layers, heads=None, head_dim=None, columns=None):
        at = min(axis, len(shape))
        dims = [None if dim is None else dim + (dim >= at)
                for dim in (head_dim, columns)]
        tree[path] = Parameter([*shape[:at], layers, *shape[at:]], at, heads,
                               *dims)

    for i in range(draw.choice((1, 2))):
        layers = draw.choice((2, 5, 12, 16, 23, 32))
        top = words[7 + i]
        attention, mlp = draw.choice(((f"{top}/{words[9]}", f"{top}/{words[10]}"),
                                      (f"{top}/lookback", f"{top}/mull"),
                                      (top, top)))
        for name, number in zip(names, (heads, kv_heads, kv_heads)):
            if has_columns:
                add(f"{attention}/{name}{leaf}", [width, number, size], layers,
                    number, 1, 2)
            else:
                add(f"{attention}/{name}{leaf}", [width, number * size], layers)
        if has_columns:
            add(f"{attention}/{names[3]}{leaf}", [heads, size, width], layers,
                heads, 0, 1)
        else:
            add(f"{attention}/{names[3]}{leaf}", [heads * size, width], layers)
        for name, shape in ((names[4], [width, inner]), (names[5], [width, inner]),
                            (names[6], [inner, width])):
            add(f"{mlp}/{name}{leaf}", shape, layers)
        for name in ("calm", "hush") if norm else ():
            add(f"{top}/{name}/{norm}", [width], layers)
    return tree


def axes_of(entry):
    return [entry] if isinstance(entry, str) else entry or []


class UnlistedNames(Case):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, shapes):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"schema": "shardc.manifest/v1", "params": {
                name: {"shape": shape, "dtype": "BF16"}
                for name, shape in shapes.items()}}, file)
        return path

    def suggest(self, path, *words, rc=0):
        return self.check(run("suggest", "--no-project", "--manifest", path,
                              *words), rc)

    def specs(self, path, mesh, *words):
        """The specs that the suggested rules give each parameter."""
        rules = os.path.join(tempfile.mkdtemp(dir=self.folder), "rules.yaml")
        self.suggest(path, "--mesh", mesh, "-o", rules, *words)
        plan = self.check(run("plan", "-q", "--no-project", "--mesh", mesh,
                              "--manifest", path, "--rules", rules), 0).json()
        return {name: [axes_of(entry) for entry in one["spec"]]
                + [[]] * (len(one["shape"]) - len(one["spec"]))
                for name, one in plan["params"].items()}

    def test_a_dense_stack_below_a_folder_of_experts_has_layers(self):
        """The name means experts, and the siblings' shapes show layers. On a mesh with an
        axis for experts, no sentence states that tokens are sent to them."""
        for folder, experts, sibling, layers, width, inner, mesh in (
                ("verses/guild", "experts", "verses/lookback", 12, 1024, 2816, "tp:2"),
                ("body/crew", "experts", "body/gaze", 24, 768, 2048, "fsdp:4,tp:2"),
                ("net/moe", "expert", "net/attention", 10, 512, 1536, "dp:2,tp:4"),
                ("w/experts", "ffn", "w/self_attention", 16, 640, 1728, "ep:4,tp:2")):
            up, down = [layers, width, inner], [layers, inner, width]
            path = self.write("dense.json", {
                "embed/table": [32000, width],
                **{f"{sibling}/{name}": [layers, width, width]
                   for name in ("query", "key", "value", "out")},
                **{f"{folder}/{experts}/{name}": up for name in ("gate", "up")},
                f"{folder}/{experts}/down": down})
            with self.subTest(folder):
                specs = self.specs(path, mesh)
                for name, dim in (("up", 2), ("gate", 2), ("down", 1)):
                    spec = specs[f"{folder}/{experts}/{name}"]
                    self.assertEqual(spec[0], [])
                    self.assertEqual(spec[dim], ["tp"])
                text = " ".join(self.suggest(path, "--mesh", mesh, "-o", "-").out
                                .replace("\n#", "").split())
                self.assertNotIn("to their experts", text)
                self.assertEqual("the model has no experts for it" in text,
                                 "ep" in mesh)

    def test_stacks_under_any_name_get_rules(self):
        for seed in range(54):
            tree = stacked_tree(seed)
            with self.subTest(seed=seed):
                path = self.write("tree.json", {name: one.shape
                                                for name, one in tree.items()})
                specs = self.specs(path, "fsdp:4,tp:4")
                for name, one in tree.items():
                    param = (name, one.shape, specs[name])
                    if one.layers is not None:
                        self.assertEqual(specs[name][one.layers], [], param)
                    if one.heads is None:
                        continue
                    self.assertEqual(specs[name][one.columns], [], param)
                    self.assertEqual("tp" in specs[name][one.head_dim],
                                     one.heads % 4 == 0, param)

    def test_an_output_next_to_a_fused_projection(self):
        """The last one is without evidence: two matrices may be the output."""
        for words, out, named in (
                (("attn/qkv/kernel", "attn/out/kernel"), "tp", True),
                (("qkv/kernel", "out/kernel"), "tp", True),
                (("qkv/kernel", "proj/kernel"), "tp", True),
                (("mixer/qkv/w", "mixer/to_out/w"), "tp", True),
                (("mixer/qkv/w", "mixer/krell/w"), "tp", True),
                (("zorp/blick/kernel", "zorp/snar/kernel"), "tp", False),
                (("zorp/blick/w", "zorp/snar/w"), "tp", False)):
            shapes = {"embed/embedding": [32000, 1024]}
            for i in range(4):
                shapes |= {f"blocks/{i}/{words[0]}": [1024, 3072],
                           f"blocks/{i}/{words[1]}": [1024, 1024],
                           f"blocks/{i}/mull/fc1/kernel": [1024, 4096],
                           f"blocks/{i}/mull/fc2/kernel": [4096, 1024]}
            with self.subTest(words=words):
                path = self.write("blocks.json", shapes)
                specs = self.specs(path, "fsdp:2,tp:4")
                self.assertEqual(specs[f"blocks/0/{words[0]}"],
                                 [["fsdp"], ["tp"]])
                self.assertEqual(specs[f"blocks/0/{words[1]}"],
                                 [[out], ["fsdp"]])
                text = self.suggest(path, "--mesh", "fsdp:2,tp:4").out
                self.assertIn("HEAD, [FSDP, SP]", text)
                self.assertEqual("Perhaps query, key and value" in text,
                                 not named)
                shapes["blocks/0/mixer/fizz/w"] = [1024, 1024]

    def test_what_is_no_attention_has_no_heads(self):
        """A feed-forward block of three times the width, two square matrices,
        and a convolution next to a projection of three parts."""
        for more in ({"zorp/fizz/w": [3072, 1024]}, {"zorp/fizz/w": [1024, 1024]},
                     {"zorp/conv/w": [1024, 1, 4]}):
            shapes = {}
            for i in range(4):
                shapes |= {f"blocks/{i}/{name}": shape for name, shape in {
                    "zorp/blick/w": [1024, 3072], "zorp/snar/w": [1024, 1024],
                    **more}.items()}
            with self.subTest(more=more):
                text = self.suggest(self.write("blocks.json", shapes),
                                    "--mesh", "tp:4").out
                self.assertNotIn("HEAD", text)
                self.assertNotIn("heads of", text)

    def test_no_mesh_is_chosen_without_roles(self):
        words = ("--devices", 8, "--profile", "tpu-v5p", "--batch", 256, "--seq",
                 4096)
        done = self.suggest(FULL, *words, rc=1)
        self.assertEqual(done.out, "")
        self.assertNotIn("a step", done.err)
        self.assertIn(" have activations whose traffic is not known, so that "
                      "the times of meshes cannot be compared", done.err)
        for part in ("no mesh is chosen", "of unknown role", "`--mesh`",
                     "`--model`", "`model:` section", "not known: the roles of"):
            self.assertIn(part, done.err)
        done = self.suggest(FULL, *words, "--model", CONFIG, rc=1)
        self.assertNotIn("--model", done.err)
        folder = os.path.join(self.folder, "project")
        done = self.check(run("init", FULL, "--devices", 8, "--folder", folder),
                          1)
        self.assertIn("no mesh is chosen", done.err)
        self.assertFalse(os.path.exists(folder))

    def test_nothing_is_stated_that_was_not_found(self):
        done = self.suggest(FULL, "--mesh", "fsdp:4,tp:2", "--model", CONFIG)
        self.assertNotIn("do not divide", done.out)
        self.assertIn("16 heads of 128, 4 KV heads", done.out)
        self.assertNotIn("assumed", done.out + done.err)
        for line in done.out.split("- match"):
            if "into" in line:
                self.assertNotIn("embedding", line)
        specs = self.specs(FULL, "fsdp:4,tp:2", "--model", CONFIG)
        self.assertEqual(specs["params/decoder/block_0/mixer/qkv/w"],
                         [["fsdp"], ["tp"]])
        self.assertEqual(specs["params/decoder/tower/mixer/o/w"],
                         [[], ["tp"], ["fsdp"]])
        # Without the configuration the size of a head is a guess.
        done = self.suggest(FULL, "--mesh", "fsdp:4,tp:2")
        self.assertIn("heads of 128, 4 KV heads (head size assumed)", done.out)
        self.assertNotIn("8192", done.out.split("version: 1")[0])

    def test_a_projection_into_a_mixer_has_no_heads(self):
        path = os.path.join(REPORTS, "fused-by-shape", "megatron.json")
        done = self.suggest(path, "--mesh", "tp:4")
        self.assertNotRegex(done.out, r"\d heads|KV heads|heads of")

    def test_rules_that_are_not_written_say_so(self):
        path = os.path.join(REPORTS, "suggest-says-nothing", "nemotron.json")
        rules = os.path.join(self.folder, "s.yaml")
        for words in ((), ("-q",)):
            done = self.suggest(path, "--mesh", "tp:2", "-o", rules, *words,
                                rc=1)
            self.assertFalse(os.path.exists(rules))
            self.assertNotIn("suggested   ", done.err)
            self.assertIn("the suggested rules are not written, because of ",
                          done.err)
            self.assertIn("`shardc suggest --force` writes them", done.err)
        self.suggest(path, "--mesh", "tp:2", "-o", rules, "--force", rc=1)
        self.assertTrue(os.path.exists(rules))

    def test_unknown_roles_are_counted_and_warned_of(self):
        rules = os.path.join(self.folder, "rules.json")
        done = self.suggest(FULL, "--mesh", "fsdp:4,tp:2", "-o", rules,
                            "--format", "json")
        self.assertRegex(done.err, r"unknown     \d+ parameters \(\d+\.\d %\) of "
                                   "unknown role")
        with open(rules, encoding="utf-8") as file:
            written = json.load(file)
        self.assertTrue(written["at_least"])
        self.assertIn("params/decoder/tower/bank/switch",
                      written["not_known"][0]["params"])
        found = run("check", "--no-project", "--mesh", "fsdp:4,tp:2", "--rules",
                    rules, "--manifest", FULL, "--format", "json").json()
        self.assertEqual([one["code"] for one in found
                          if one["code"] != "SHD230"], ["SHD120"])
        # A known model has neither.
        path = os.path.join(TESTDATA, "models", "llama-3-8b.hf.manifest.json")
        done = self.suggest(path, "--mesh", "tp:8", "--format", "json")
        self.assertNotIn("unknown", done.err)
        self.assertEqual(done.json()["not_known"], [])
        self.assertFalse(done.json()["at_least"])


if __name__ == "__main__":
    unittest.main()
