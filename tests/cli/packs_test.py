"""The rule packs over every real parameter tree that they serve."""

import collections
import functools
import gzip
import json
import math
import os
import re
import tempfile
import unittest

from driver import MODELS, ROOT, Case, run

MESHES = [
    {"dp": 2, "fsdp": 8, "tp": 4},
    {"fsdp": 4, "ep": 8, "tp": 2},
    {"fsdp": 64},
]
ITEM_BYTES = {"BF16": 2, "F16": 2, "F32": 4}


def read_json(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as file:
        return json.load(file)


CATALOG = read_json(os.path.join(MODELS, "CATALOG.json"))


def manifest_path(entry):
    return os.path.join(MODELS, entry["file"])


def mesh_text(mesh):
    return ",".join(f"{axis}:{size}" for axis, size in mesh.items())


@functools.lru_cache(maxsize=None)
def plan(index, rules, mesh):
    """The run and its plan, the same for all tests."""
    result = run("plan", "--mesh", mesh, "--rules", rules, "--modes",
                 "train,decode", "--manifest", manifest_path(CATALOG[index]))
    return result, result.json() if result.rc == 0 else None


class Packs(Case):
    def plans(self, meshes=MESHES):
        for index, entry in enumerate(CATALOG):
            for mesh in meshes:
                result, compiled = plan(index, entry["pack"], mesh_text(mesh))
                self.check(result, 0)
                yield entry, mesh, compiled

    def test_counts_are_the_catalogs(self):
        seen = 0
        for entry, _, compiled in self.plans(MESHES[:1]):
            summary = compiled["summary"]
            self.assertEqual(summary["params"], entry["tensors"])
            self.assertEqual(len(compiled["params"]), entry["tensors"])
            if "parameters" in entry:
                self.assertEqual(summary["elements"], entry["parameters"])
            else:
                self.assertEqual(summary["bytes"], entry["bytes"])
            seen += 1
        self.assertEqual(seen, len(CATALOG))

    def test_nothing_is_unmatched_or_longer_than_its_rank(self):
        for _, _, compiled in self.plans():
            self.assertEqual(compiled["summary"]["unmatched"], 0)
            for name, param in compiled["params"].items():
                self.assertIsNotNone(param["rule"], name)
                self.assertLessEqual(len(param["spec"]), len(param["shape"]),
                                     name)

    def test_only_vocabularies_are_ever_corrected(self):
        corrected = 0
        for _, _, compiled in self.plans():
            for name, param in compiled["params"].items():
                for edit in param.get("corrections", []):
                    self.assertEqual(edit["reason"], "indivisible", name)
                    self.assertRegex(name, r"embed_tokens|lm_head|wte")
                    corrected += 1
        self.assertGreater(corrected, 0)

    def test_winners_are_what_python_finds(self):
        for entry, _, compiled in self.plans(MESHES[:1]):
            patterns = [re.compile(r["match"]) for r in compiled["rules"]]
            self.assertEqual(len({r.pattern for r in patterns}), len(patterns))
            for name, param in compiled["params"].items():
                first = next(pattern.pattern for pattern in patterns
                             if pattern.search(name))
                self.assertEqual(param["rule"], first, name)

    def test_shards_follow_from_specs(self):
        for _, mesh, compiled in self.plans():
            for name, param in compiled["params"].items():
                shard = list(param["shape"])
                for dim, axes in enumerate(param["spec"]):
                    axes = [axes] if isinstance(axes, str) else axes or []
                    parts = math.prod(mesh[axis] for axis in axes)
                    self.assertEqual(shard[dim] % parts, 0, name)
                    shard[dim] //= parts
                self.assertEqual(param["shard_shape"], shard, name)
                self.assertEqual(
                    param["bytes_per_device"],
                    math.prod(shard) * ITEM_BYTES[param["dtype"]], name)

    def test_experts_are_spread_over_their_axis(self):
        mesh = MESHES[1]
        placed = collections.Counter()
        for entry, _, compiled in self.plans([mesh]):
            for name, param in compiled["params"].items():
                index = re.search(r"experts\.(\d+)\.", name)
                if index is None:
                    self.assertNotIn("placement", param, name)
                    continue
                coordinate = int(index.group(1)) * mesh["ep"] // 8
                self.assertEqual(param["placement"],
                                 {"axis": "ep", "coordinate": coordinate})
                placed[coordinate] += 1
        self.assertEqual(len(set(placed.values())), 1)
        self.assertEqual(len(placed), mesh["ep"])

    def test_large_matrices_are_never_replicated(self):
        for _, _, compiled in self.plans(MESHES[:1]):
            for name, param in compiled["params"].items():
                if math.prod(param["shape"]) >= 2 ** 20:
                    self.assertLess(math.prod(param["shard_shape"]),
                                    math.prod(param["shape"]), name)

    def test_auto_picks_the_pack(self):
        for index, entry in enumerate(CATALOG):
            with self.subTest(entry["file"]):
                result, compiled = plan(index, "auto", mesh_text(MESHES[0]))
                self.check(result, 0)
                sources = {re.sub(r":\d+$", "", rule["source"])
                           for rule in compiled["rules"]}
                self.assertEqual(sources, {entry["pack"]})

    def test_a_pack_without_naming_takes_the_names_own(self):
        for index, entry in enumerate(CATALOG):
            short = entry["pack"].split("/")[0]
            with self.subTest(entry["file"]):
                _, compiled = plan(index, entry["pack"], mesh_text(MESHES[0]))
                result, other = plan(index, short, mesh_text(MESHES[0]))
                self.check(result, 0)
                self.assertEqual(other, compiled)

    def test_biases_that_a_config_adds_are_matched(self):
        """No published tree here has biases in all projections, but Granite's
        code models do, whose configs have both switches."""
        small = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48,
                 "num_hidden_layers": 2, "num_attention_heads": 4,
                 "num_key_value_heads": 2, "attention_bias": True,
                 "mlp_bias": True}
        latent = {"moe_intermediate_size": 16, "n_routed_experts": 4,
                  "q_lora_rank": 16, "kv_lora_rank": 16, "v_head_dim": 8,
                  "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,
                  "first_k_dense_replace": 1}
        for kind, naming, more in [
                ("llama", "hf", {}), ("llama", "flax", {}),
                ("llama", "easydel", {}), ("granite", "hf", {}),
                ("qwen3", "hf", {}), ("gemma", "hf", {}),
                ("gemma", "flax", {}), ("gemma2", "hf", {}),
                ("deepseek_v2", "hf", latent), ("deepseek_v3", "hf", latent)]:
            with self.subTest(kind, naming=naming), \
                    tempfile.TemporaryDirectory() as folder:
                config = os.path.join(folder, "config.json")
                with open(config, "w", encoding="utf-8") as file:
                    json.dump({"model_type": kind, **small, **more}, file)
                tree = os.path.join(folder, "manifest.json")
                self.check(run("show", "manifest", "--model", config, "--naming",
                               naming, "--format", "json", "-o", tree), 0)
                result = run("plan", "--mesh", "fsdp:2,tp:2", "--rules",
                             "auto", "--manifest", tree)
                self.check(result, 0)
                params = result.json()["params"]
                end = "o_proj.bias" if naming == "hf" else "o_proj/bias"
                biases = [param["spec"] for name, param in params.items()
                          if name.endswith(end)]
                self.assertEqual(biases, [[None]] * 2)

    def test_twins_agree(self):
        """A tensor and its transposed twin are split the same way."""
        flax = next(i for i, e in enumerate(CATALOG)
                    if e["file"].startswith("llama-3-8b.flax"))
        hf = next(i for i, e in enumerate(CATALOG)
                  if e["file"].startswith("llama-3-8b.hf"))
        mesh = mesh_text(MESHES[0])
        flax_params = plan(flax, "auto", mesh)[1]["params"]
        hf_params = plan(hf, "auto", mesh)[1]["params"]
        for name, param in flax_params.items():
            twin = re.sub("(kernel|embedding)$", "weight",
                          name).replace("/", ".")
            spec = hf_params[twin]["spec"]
            if name.endswith("kernel") and len(param["shape"]) == 2:
                spec = spec[::-1]
            self.assertEqual(param["spec"], spec, name)


if __name__ == "__main__":
    unittest.main()
