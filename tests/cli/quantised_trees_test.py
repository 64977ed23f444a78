"""Quantised weights: the blocks that a config.json states, trees of GPTQ and
AWQ under rules of unquantised names, and weights that hold two matrices."""

import json
import os
import unittest

from check_case import Folder
from driver import TESTDATA

REPORTS = os.path.join(TESTDATA, "reports")


class QuantisedTrees(Folder):
    def blocks(self, mesh, rules, config):
        folder = os.path.join(REPORTS, "blocks-in-config")
        done = self.check(self.shardc(
            "check", "--no-project", "--mesh", mesh, "--rules",
            os.path.join(folder, rules), "--manifest",
            os.path.join(folder, "bf16_before.json"), "--model",
            os.path.join(folder, config), "--select", "SHD222", "--format",
            "json"), 0)
        return [one["message"] for one in done.json()]

    def test_a_block_of_rows_is_that_of_the_config(self):
        found = self.blocks("tp:8", "colonly.yaml", "config_q.json")
        self.assertEqual(found, [
            "dimension 0 of `model.layers.*.mlp.experts.*.gate_proj.weight` (4 "
            "parameters) and `model.layers.*.mlp.experts.*.up_proj.weight` (4 "
            "parameters) is 1536 in blocks of 128, axis `tp` has 8: a shard is "
            "192 and ends inside a block"])
        self.assertEqual(
            self.blocks("tp:4", "colonly.yaml", "config_q.json"), [])

    def test_groups_of_compressed_tensors_have_block_sizes(self):
        found = self.blocks("tp:64", "tp.yaml", "cq_ct.json")
        self.assertEqual(len(found), 1, found)
        self.assertIn("dimension 1 of `model.layers.*.mlp.experts.*.down_proj."
                      "weight` (4 parameters) is 1536 in blocks of 16",
                      found[0])
        self.assertEqual(self.blocks("tp:32", "tp.yaml", "cq_ct.json"), [])

    def scaled(self, scales):
        """The findings about names of a layer in 8 bits with these scales."""
        params = {"model.embed_tokens.weight": ([256, 64], "BF16"),
                  "model.norm.weight": ([64], "BF16"),
                  "lm_head.weight": ([256, 64], "BF16")}
        layer = "model.layers.0."
        for name in ("input_layernorm", "post_attention_layernorm"):
            params[layer + name + ".weight"] = ([64], "BF16")
        for name, shape in (("self_attn.q_proj", [64, 64]),
                            ("self_attn.k_proj", [32, 64]),
                            ("self_attn.v_proj", [32, 64]),
                            ("self_attn.o_proj", [64, 64]),
                            ("mlp.gate_proj", [128, 64]),
                            ("mlp.up_proj", [128, 64]),
                            ("mlp.down_proj", [64, 128])):
            params[layer + name + ".weight"] = (shape, "F8_E4M3")
            for scale, of in scales.items():
                params[layer + name + "." + scale] = (of(shape), "F32")
        self.write("scaled.json", json.dumps({
            "schema": "shardc.manifest/v1", "params": {
                name: {"shape": shape, "dtype": dtype}
                for name, (shape, dtype) in params.items()}}))
        done = self.shardc("check", "--no-project", "--mesh", "tp:2", "--rules",
                           "builtin:llama/hf", "--manifest", "scaled.json",
                           "--select", "SHD104", "--format", "json")
        return [one["message"] for one in done.json()]

    def test_a_scale_next_to_a_weight_needs_no_rule(self):
        for scales in ({"weight_scale": lambda shape: [shape[0], 1]},
                       {"weight_scale": lambda _: [1],
                        "input_scale": lambda _: [1]}):
            self.assertEqual(self.scaled(scales), [])
        for scales in ({"weight_scale": lambda shape: [shape[0], 2]},
                       {"other_scale": lambda shape: [shape[0], 1]}):
            found = self.scaled(scales)
            self.assertEqual(len(found), 7, found)
            self.assertIn("no rule matches", found[0])

    def gptq(self, name):
        return os.path.join(REPORTS, "gptq-help", name)

    def test_one_finding_is_of_all_tensors_of_quantised_weights(self):
        for name, scheme, stored, tensors in (
                ("gptq_g32.json", "GPTQ", "[in / N, out]", 56),
                ("awq_g32.json", "AWQ", "[in, out / N]", 42)):
            done = self.check(self.shardc(
                "check", "--no-project", "--mesh", "tp:2", "--rules", "auto",
                "--manifest", self.gptq(name), "--select", "SHD104",
                "--format", "json"), 1)
            found = done.json()
            self.assertEqual(len(found), 1, found)
            self.assertIn(f"this is a tree of {scheme}: no rule matches "
                          f"{tensors} tensors of quantised weights",
                          found[0]["message"])
            self.assertIn(stored, found[0]["help"])
            self.assertIn("shardc suggest", found[0]["help"])

    def test_a_bias_is_split_as_its_packed_weight(self):
        for name in ("gptq_g32.json", "awq_g32.json"):
            rules = self.check(self.shardc(
                "suggest", "--mesh", "tp:2", "--manifest", self.gptq(name),
                "--model", self.gptq("config.json")), 0).out
            self.assertIn("- match: 'q_proj\\.bias$'\n    spec: [HEAD]", rules)
            self.assertIn("- match: '(k|v)_proj\\.bias$'\n    spec: [KV_HEAD]",
                          rules)

    def packed(self, *flags, rc, style=None):
        folder = os.path.join(REPORTS, "packed-colwise")
        plan = os.path.join(folder, "tp.json")
        if style:
            self.write("tp.json", '{"model.layers.*.mlp.gate_up_proj": "%s"}'
                       % style)
            plan = "tp.json"
        return self.check(self.shardc(
            "import", "hf-tp-plan", plan, "--manifest",
            os.path.join(folder, "w.safetensors"), "-o", self.path("out.yaml"),
            *flags), rc)

    def test_shards_of_two_matrices_are_parts(self):
        for style in (None, "packed_colwise", "packed_rowwise",
                      "local_packed_rowwise"):
            self.packed(rc=0, style=style)
            self.assertRegex(self.read("out.yaml"),
                             r"parts: \[(null, )*2\]")
        for style in ("colwise", "colwise_gather_output", "colwise_rep",
                      "local_colwise", "rowwise", "local_rowwise"):
            self.packed(rc=0, style=style)
            self.assertNotIn("parts:", self.read("out.yaml"))

    def test_one_range_for_each_device_is_written_if_asked_for(self):
        self.packed("--contiguous", rc=0)
        text = self.read("out.yaml")
        self.assertIn("Two matrices in one weight: transformers shards each "
                      "of them.", text)


if __name__ == "__main__":
    unittest.main()
