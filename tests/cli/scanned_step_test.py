"""Trees whose layers are scanned have the step of the trees that they stack.

Each tree of `MODELS` is stacked at the first and at the second dimension, with
and without a name in place of the layers' numbers, as `nn.scan` and MaxText
write it.
"""

import gzip
import json
import os
import re
import tempfile
import unittest

from driver import MODELS, TESTDATA, Case, run

TREES = [("llama-3.2-1b", "fsdp:4,tp:4"), ("qwen2-0.5b", "dp:2,fsdp:4"),
         ("gemma-2b", "fsdp:8"), ("mixtral-8x7b", "fsdp:4,ep:2,tp:2"),
         ("gpt2", "dp:4,tp:2")]


def tree_of(model):
    path = os.path.join(MODELS, f"{model}.flax.manifest.json")
    opened = (open(path, encoding="utf-8") if os.path.exists(path) else
              gzip.open(path + ".gz", "rt", encoding="utf-8"))
    with opened as file:
        return json.load(file)


def stacked(tree, dim, name):
    """One parameter for each of all layers: the number is left out, or `name`
    stands for it."""
    out, layers = {}, {}
    for one in tree["params"]:
        found = re.match(r"(.*(?:layers|h)/)\d+/(.*)$", one["name"])
        if not found:
            out[one["name"]] = one
            continue
        key = found.group(1) + (name + "/" if name else "") + found.group(2)
        layers[key] = layers.get(key, 0) + 1
        out[key] = {**one, "name": key}
    for key, count in layers.items():
        shape = list(out[key]["shape"])
        shape.insert(min(dim, len(shape)), count)
        out[key]["shape"] = shape
    return {**tree, "params": list(out.values())}


class Steps(Case):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, name, content):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content if isinstance(content, str)
                       else json.dumps(content))
        return path

    def inputs(self, manifest, model, mesh, config=True):
        return ["--manifest", manifest, "--mesh", mesh, "--rules", "auto",
                "--no-project",
                *(["--model", os.path.join(TESTDATA, "configs",
                                           f"{model}.config.json")]
                  if config else [])]

    def cost(self, *arguments):
        got = run("cost", *arguments, "--format", "json")
        self.assertIn(got.rc, (0, 1), got.err)
        return json.loads(got.out)


class ScannedSteps(Steps):
    def test_a_stacked_tree_sends_and_holds_what_its_layers_do(self):
        for model, mesh in TREES:
            tree = tree_of(model)
            plain = self.write("plain.json", tree)
            step = ["--batch", "32", "--seq", "1024", "--kv-len", "1024"]
            for dim, name in ((0, ""), (1, "block")):
                scanned = self.write("scanned.json", stacked(tree, dim, name))
                for mode in ("train", "prefill", "decode"):
                    with self.subTest(model=model, dim=dim, mode=mode):
                        one, other = (self.cost(
                            *self.inputs(path, model, mesh), *step, "--mode",
                            mode) for path in (plain, scanned))
                        self.assertEqual(one["communication_from"], "program")
                        self.assertEqual(other["communication_from"],
                                         "program", other)
                        self.assertEqual(one["communication"],
                                         other["communication"])
                        self.assertEqual(one["memory"], other["memory"])

    def test_verify_step_proves_it(self):
        model, mesh = TREES[0]
        tree = tree_of(model)
        for dim, name in ((0, "block"), (1, "")):
            path = self.write("scanned.json", stacked(tree, dim, name))
            for mode in ("train", "decode"):
                with self.subTest(dim=dim, mode=mode):
                    got = run("verify", "step", *self.inputs(path, model, mesh),
                              "--mode", mode, "--batch", "32", "--seq", "1024")
                    self.assertEqual(got.rc, 0, repr(got))
                    self.assertIn("layer 0-15", got.out)

    def test_without_a_configuration_the_shapes_count_the_layers(self):
        model, mesh = TREES[0]
        for dim in (0, 1):
            path = self.write("scanned.json", stacked(tree_of(model), dim, ""))
            got = run("verify", "step",
                      *self.inputs(path, model, mesh, config=False),
                      "--batch", "32", "--seq", "1024")
            # The size of a head is in no shape of this family.
            self.assertIn(got.rc, (0, 2), repr(got))
            self.assertNotIn("no role", got.err)

    def test_check_has_no_role_findings(self):
        model, mesh = TREES[0]
        path = self.write("scanned.json", stacked(tree_of(model), 0, ""))
        got = run("check", *self.inputs(path, model, mesh), "--format",
                  "concise")
        self.assertNotIn("SHD022", got.out + got.err)
        self.assertNotRegex(got.out, "has no role|is both")

    def test_an_axis_over_the_layers_has_no_step(self):
        model, _ = TREES[0]
        path = self.write("scanned.json", stacked(tree_of(model), 0, ""))
        rules = self.write("rules.yaml", """\
version: 1
extends: [builtin:llama/flax]
rules:
  - match: 'q_proj/kernel$'
    spec: [fsdp, null, tp]
""")
        inputs = [rules if one == "auto" else one
                  for one in self.inputs(path, model, "fsdp:4,tp:2")]
        got = run("verify", "step", *inputs, "--batch", "32", "--seq", "1024")
        self.assertEqual(got.rc, 1, repr(got))
        self.assertIn("unsupported: q: \"fsdp\" shards the dimension that "
                      "counts scanned layers", got.out)
        cost = self.cost(*inputs, "--batch", "32", "--seq", "1024")
        self.assertEqual(cost["communication_from"], "formulas")

    def test_a_wrong_number_of_layers_is_reported(self):
        model, mesh = TREES[0]
        tree = stacked(tree_of(model), 0, "")
        for one in tree["params"]:
            if one["name"].endswith("up_proj/kernel"):
                one["shape"][0] = 12
        path = self.write("scanned.json", tree)
        got = run("verify", "step", *self.inputs(path, model, mesh))
        self.assertEqual(got.rc, 2, repr(got))
        self.assertRegex(got.err, "up_proj.*without a dimension of the model's "
                         "16 layers")


class Tower(Steps):
    """A model section in which one dense layer precedes a tower of scanned
    layers with experts."""

    CONFIG = {"hidden_size": 64, "num_attention_heads": 4,
              "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 256,
              "num_experts": 4, "num_experts_per_tok": 2,
              "moe_intermediate_size": 32, "shared_size": 32,
              "intermediate_size": 128, "num_hidden_layers": 4}
    EVERY = {"pre/g": [64], "mixer/qkv/w": [64, 128], "mixer/o/w": [64, 64],
             "post/g": [64]}
    DENSE = {"ffn/into_gate/w": [64, 128], "ffn/into/w": [64, 128],
             "ffn/outof/w": [128, 64]}
    EXPERTS = {"bank/switch": [64, 4], "bank/wi": [4, 64, 64],
               "bank/wo": [4, 32, 64], "shared/into_gate/w": [64, 32],
               "shared/into/w": [64, 32], "shared/outof/w": [32, 64]}

    def section(self, **changes):
        path = os.path.join(TESTDATA, "reports", "model-section-typo",
                            "model_section.yaml")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for old, new in changes.values():
            self.assertIn(old, text)
            text = text.replace(old, new)
        return self.write("r.yaml", text)

    def manifest(self, tower):
        params = {"params/lex": [256, 64], "params/last/g": [64],
                  "params/unlex": [64, 256]}
        for part, shape in {**self.EVERY, **self.DENSE}.items():
            params["params/block_0/" + part] = shape
        for part, shape in {**self.EVERY, **self.EXPERTS}.items():
            if tower:
                params["params/tower/" + part] = [3, *shape]
                continue
            for layer in range(1, 4):
                params[f"params/block_{layer}/{part}"] = shape
        return self.write("m.json", {"schema": "shardc.manifest/v1", "params": {
            name: {"shape": shape, "dtype": "BF16"}
            for name, shape in params.items()}})

    HALVES = ("[e, d, (f+f)]", "[e, d, z f]")
    SIZE = ("r: lora_rank}", "r: lora_rank, z: 2}")
    FLAT = ("(block_$i|tower)", "block_$i")
    ROLES = (" ['tower/", " ['block_$i/")
    # The rules of layers that are not scanned have no dimension of layers.
    SPECS = {one: ("%s$', spec: [null, " % one, "%s$', spec: [" % one)
             for one in ("bank/wi", "bank/wo", "shared/into(_gate)?/w",
                         "shared/outof/w")}

    def args(self, rules, manifest):
        return ("--no-project", "--mesh", "fsdp:2,tp:2", "--rules", rules,
                "--manifest", manifest, "--model",
                self.write("c.json", self.CONFIG))

    def test_it_has_the_step_of_layers_with_numbers(self):
        steps = []
        for tower in (True, False):
            changes = {"halves": self.HALVES, "size": self.SIZE}
            if not tower:
                changes.update(self.SPECS, flat=self.FLAT, roles=self.ROLES)
            inputs = self.args(self.section(**changes), self.manifest(tower))
            steps.append(self.cost(*inputs, "--batch", "8", "--seq", "16"))
            self.assertEqual(steps[-1]["communication_from"], "program")
        self.assertEqual(steps[0]["communication"], steps[1]["communication"])
        for part in ("parameters", "gradients", "optimizer", "activations"):
            self.assertEqual(steps[0]["memory"][part],
                             steps[1]["memory"][part])

    def test_a_scanned_tower_is_proven(self):
        rules = self.section(halves=self.HALVES, size=self.SIZE)
        self.check(run("verify", "step", *self.args(rules, self.manifest(True)),
                       "--batch", "4", "--seq", "8", "--mode", "train"), 0)

    def test_halves_that_are_no_dimension_of_two_are_refused_at_the_line(self):
        rules = self.section()
        got = self.check(run("verify", "step", *self.args(
            rules, self.manifest(True)), "--batch", "4", "--seq", "8"), 2)
        self.assertIn("`moe_fused router` needs gate and up in a "
                      "dimension of size 2", got.err)
        self.assertIn("r.yaml:57", got.err)

    def test_a_condition_on_the_layer_holds_in_that_layer_alone(self):
        gate = ("gate?: ['block_$i/ffn/into_gate/w$', [d, fd]]",
                "gate: ['block_$i/ffn/into_gate/w$', [d, fd], "
                "{when: i == 0}]")
        rules = self.section(halves=self.HALVES, size=self.SIZE, gate=gate)
        cost = self.cost(*self.args(rules, self.manifest(True)), "--batch",
                         "8", "--seq", "16")
        self.assertEqual(cost["communication_from"], "program")
        wrong = (gate[0], gate[1].replace("i == 0", "i == 1"))
        rules = self.section(halves=self.HALVES, size=self.SIZE, gate=wrong)
        got = self.check(run("check", *self.args(rules, self.manifest(True)),
                             "--select", "SHD236"), 0)
        self.assertIn("layer 1 has no `gate`", got.out + got.err)


if __name__ == "__main__":
    unittest.main()
