"""Quantised weights of a config.json: what a published checkpoint holds, and
which commands use it."""

import collections
import json
import math
import os
import tempfile
import unittest

from driver import TESTDATA, run

BITS = {"F32": 32, "BF16": 16, "F16": 16, "F8_E4M3": 8, "I64": 64, "I32": 32,
        "I8": 8, "U8": 8}
SCALES = ("scales", "weight_scale", "weight_scale_inv")

LLAMA = {"model_type": "llama", "hidden_size": 256, "intermediate_size": 512,
         "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "vocab_size": 1024,
         "torch_dtype": "bfloat16"}


class QuantisedWeights(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, config):
        name = os.path.join(self.folder.name, "config.json")
        with open(name, "w", encoding="utf-8") as file:
            json.dump(config, file)
        return name

    def tree(self, config, *arguments):
        result = run("show", "manifest", "--model", self.path(config), "--format",
                     "json", *arguments)
        self.assertEqual(result.rc, 0, result.err)
        params = json.loads(result.out)["params"]
        if isinstance(params, list):
            return {one["name"]: one for one in params}
        return params

    def llama(self, quantisation, *arguments, **changes):
        return self.tree({**LLAMA, **changes,
                          "quantization_config": quantisation}, *arguments)

    def stored(self, tree, module):
        return {name[len(module) + 1:]: (one["dtype"], one["shape"])
                for name, one in tree.items()
                if name.startswith(module + ".")}

    def test_sizes_of_published_checkpoints(self):
        with open(os.path.join(TESTDATA, "published", "quantised.json"),
                  encoding="utf-8") as file:
            rows = json.load(file)
        self.assertEqual(len(rows), 12)
        for row in rows:
            with self.subTest(row["name"]):
                self.compare(row)

    def compare(self, row):
        config = row["config"]
        if isinstance(config, str):
            with open(os.path.join(TESTDATA, "configs",
                                   config + ".config.json"),
                      encoding="utf-8") as file:
                config = json.load(file)
        if "layers" in row:
            config["num_hidden_layers"] = row["layers"]
        dtypes, leaves = collections.Counter(), collections.Counter()
        total = others = 0
        for name, one in self.tree(config).items():
            count = math.prod(one["shape"])
            leaf = name.rsplit(".", 1)[-1]
            dtypes[one["dtype"]] += count
            if leaf != "weight" or one["dtype"] == "U8":
                leaves[leaf] += count
            total += count * BITS[one["dtype"]] // 8
            if one["dtype"] in ("F16", "BF16") and leaf not in SCALES:
                others += count
        for dtype, count in row.get("dtypes", {}).items():
            self.assertEqual(dtypes[dtype], count, dtype)
        for leaf, count in row.get("leaves", {}).items():
            self.assertEqual(leaves[leaf], count, leaf)
        if "others" in row:
            self.assertEqual(others, row["others"])
        if "bytes" in row:
            self.assertEqual(total, row["bytes"])
        if "gigabytes" in row:
            self.assertAlmostEqual(total / 1e9, row["gigabytes"], delta=0.02)

    def test_blocks_of_fp8(self):
        tree = self.llama({"quant_method": "fp8",
                           "weight_block_size": [128, 100]})
        self.assertEqual(
            self.stored(tree, "model.layers.1.mlp.up_proj"),
            {"weight": ("F8_E4M3", [512, 256]),
             "weight_scale_inv": ("F32", [4, 3])})
        self.assertEqual(tree["lm_head.weight"]["dtype"], "BF16")
        self.assertEqual(tree["model.norm.weight"]["dtype"], "BF16")

    def test_gptq_with_overrides(self):
        tree = self.llama({"quant_method": "gptq", "bits": 4,
                           "group_size": 64,
                           "dynamic": {"-:.*layers\\.0\\..*": {},
                                       "+:.*down_proj": {"bits": 8}}})
        self.assertEqual(
            self.stored(tree, "model.layers.1.mlp.up_proj"),
            {"qweight": ("I32", [32, 512]), "qzeros": ("I32", [4, 64]),
             "scales": ("BF16", [4, 512]), "g_idx": ("I32", [256])})
        self.assertEqual(
            tree["model.layers.1.mlp.down_proj.qweight"]["shape"], [128, 256])
        self.assertIn("model.layers.0.mlp.down_proj.weight", tree)

    def test_modules_that_are_left_out(self):
        quantisation = {
            "quant_method": "compressed-tensors", "format": "int-quantized",
            "ignore": ["lm_head", "re:.*self_attn.*",
                       "model.layers.0.mlp.up_proj"],
            "config_groups": {"group_0": {
                "targets": ["Linear"], "input_activations": None,
                "weights": {"num_bits": 8, "type": "int",
                            "strategy": "channel", "symmetric": True}}}}
        tree = self.llama(quantisation)
        whole = sorted(name for name, one in tree.items()
                       if one["dtype"] == "BF16" and "_proj.weight" in name
                       and not name.endswith("_scale"))
        self.assertEqual(
            whole, sorted(["model.layers.0.mlp.up_proj.weight"] +
                          [f"model.layers.{i}.self_attn.{p}_proj.weight"
                           for i in (0, 1) for p in "koqv"]))
        self.assertEqual(
            self.stored(tree, "model.layers.1.mlp.up_proj"),
            {"weight": ("I8", [512, 256]), "weight_scale": ("BF16", [512, 1])})

    def cost(self, config, *arguments, rules=None):
        if rules is None:
            rules = os.path.join(self.folder.name, "rules.yaml")
            with open(rules, "w", encoding="utf-8") as file:
                file.write("version: 1\nrules: [{match: '.*', spec: []}]\n")
        result = run("cost", "--no-project", "--model", self.path(config),
                     "--rules", rules, "--mesh", "tp:1", "--batch", "4",
                     "--format", "json", *arguments)
        self.assertIn(result.rc, (0, 1), result.err)
        return json.loads(result.out)

    def test_serving_counts_them_and_training_does_not(self):
        quantised = {**LLAMA, "quantization_config": {
            "quant_method": "fp8", "weight_block_size": [128, 128]}}
        # Two layers of 256x256, twice 128x256, 256x256 and three of 512x256.
        linear = 2 * (2 * 256 * 256 + 2 * 128 * 256 + 3 * 512 * 256)
        others = 2 * (2 * 1024 * 256 + 5 * 256)
        served = self.cost(quantised, "--mode", "decode", "--kv-len", "64")
        self.assertEqual(served["memory"]["parameters"],
                         linear + others + 4 * linear // 128 ** 2)
        self.assertTrue(any("quantised by fp8" in one
                            for one in served["assumptions"]), served)
        trained = self.cost(quantised, "--seq", "64")
        self.assertEqual(trained["memory"]["parameters"], 2 * linear + others)
        wide = self.cost(quantised, "--mode", "decode", "--kv-len", "64",
                         "--weights-dtype", "float32")
        self.assertEqual(wide["memory"]["parameters"],
                         4 * linear + 2 * others)
        # The weights of a checkpoint are not those that are trained.
        stated = self.cost(quantised, "--seq", "64", "--weights-dtype",
                           "config")
        self.assertIn("the weights that are trained", json.dumps(stated))

    def test_a_pack_without_rules_for_the_stored_tensors(self):
        # The tree is then that before quantisation, and the bytes of the
        # weights are not known.
        shown = self.cost({**LLAMA, "quantization_config": {
            "quant_method": "awq", "bits": 4, "group_size": 128}},
            "--mode", "decode", "--kv-len", "64", rules="auto")
        self.assertIn("the bytes of the quantised weights", json.dumps(shown))

    def test_methods_that_are_not_known(self):
        for quantisation in ({"quant_method": "vptq"},
                             {"quant_method": "gptq", "bits": 5},
                             {"quant_method": "compressed-tensors",
                              "format": "other", "config_groups": {}}):
            with self.subTest(quantisation):
                shown = self.cost({**LLAMA,
                                   "quantization_config": quantisation},
                                  "--mode", "decode", "--kv-len", "64")
                self.assertIn("the bytes of the quantised weights",
                              json.dumps(shown))

    def test_a_dtype_that_weights_cannot_have(self):
        result = run("show", "manifest", "--model", self.path(LLAMA),
                     "--weights-dtype", "int8")
        self.assertEqual(result.rc, 2)
        self.assertIn("`int8` is no dtype of unquantised weights", result.err)


if __name__ == "__main__":
    unittest.main()
