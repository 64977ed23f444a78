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


class ScannedSteps(Case):
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


if __name__ == "__main__":
    unittest.main()
