"""`kv_replicate`: KV heads that are fewer than the devices of their axes are on
several devices each, and every command computes with one head on a device."""

import json
import os
import struct
import tempfile
import unittest

from driver import MODELS, TESTDATA, Case, run

LLAMA = ["--manifest", os.path.join(MODELS, "llama-3-8b.hf.manifest.json"),
         "--model", os.path.join(TESTDATA, "configs", "llama-3-8b.config.json"),
         "--no-project"]
PACK = ["--rules", "builtin:llama/hf"]
K = "model.layers.0.self_attn.k_proj.weight"


def write(folder, name, value):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(value if isinstance(value, str) else json.dumps(value))
    return path


def manifest(params):
    return {"schema": "shardc.manifest/v1", "params": [
        {"name": name, "shape": shape, "dtype": "BF16"}
        for name, shape in params.items()]}


def config(**keys):
    return {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
            "num_hidden_layers": 2, "vocab_size": 64, "num_attention_heads": 8,
            "head_dim": 8, **keys}


RULES = """version: 1
kv_replicate: true
axes: {head: tp, kv_head: tp}
rules:
  - {match: '(q|k|v)_proj.weight$', spec: [tp, null]}
  - {match: '(q|k|v)_proj.bias$', spec: [tp]}
  - {match: 'k_norm.weight$', spec: [tp]}
  - {match: 'qkv_proj.weight$', spec: [tp, null]}
  - {match: 'o_proj.weight$', spec: [null, tp]}
  - {match: '.*', spec: []}
"""


class KvReplicate(Case):
    def plan(self, *arguments, rc=0):
        got = run("plan", *arguments)
        self.assertEqual(got.rc, rc, got.err)
        return json.loads(got.out) if rc == 0 else got.err

    def small(self, folder, tp, params, rules=RULES, rc=0, axis="tp", **keys):
        """Plans a small model on one axis."""
        return self.plan(
            "--mesh", f"{axis}:{tp}", "--rules",
            write(folder, "rules.yaml", rules.replace("tp", axis)),
            "--manifest", write(folder, "manifest.json", manifest(params)),
            "--model", write(folder, "config.json", config(**keys)),
            "--no-project", rc=rc)

    def test_llama_by_hand(self):
        # 8 KV heads of 128: a device has one head from 8 devices on.
        for tp, spec, rows in ((4, "tp", 256), (8, "tp", 128),
                               (16, "tp:(1)8", 128), (32, "tp:(1)8", 128)):
            with self.subTest(tp=tp):
                plan = self.plan(*LLAMA, *PACK, "--mesh", f"tp:{tp}",
                                 "--kv-replicate")
                for which in "kv":
                    one = plan["params"][K.replace("k_", which + "_")]
                    self.assertEqual(one["spec"][0], spec)
                    self.assertEqual(one["shard_shape"], [rows, 4096])
                    self.assertEqual(one["bytes_per_device"], rows * 4096 * 2)
                    self.assertEqual(
                        one.get("kv_replicate"),
                        {"dim": 0, "axes": "tp", "heads": 8}
                        if tp > 8 else None)
                query = plan["params"][K.replace("k_", "q_")]
                self.assertEqual(query["shard_shape"], [4096 // tp, 4096])
                self.assertNotIn("kv_replicate", query)
                self.assertEqual(
                    plan["attention"]["decode"]["key"][2], spec)
                self.assertEqual(
                    plan["summary"]["bytes_per_device"],
                    sum(one["bytes_per_device"]
                        for one in plan["params"].values()))

    def test_the_key_is_merged_from_the_nearest_file_and_the_flag_wins(self):
        with tempfile.TemporaryDirectory() as folder:
            write(folder, "base.yaml",
                  "version: 1\nkv_replicate: true\nextends: "
                  "[builtin:llama/hf]\nrules: []\n")
            near = write(folder, "near.yaml",
                         "version: 1\nkv_replicate: false\nextends: "
                         "[base.yaml]\nrules: []\n")
            base = os.path.join(folder, "base.yaml")
            mesh = ["--mesh", "tp:16"]
            for rules, flags, on in ((base, [], True), (near, [], False),
                                     (near, ["--kv-replicate"], True)):
                plan = self.plan(*LLAMA, "--rules", rules, *mesh, *flags)
                self.assertEqual("kv_replicate" in plan["params"][K], on)

    def test_a_table_of_models_and_axes(self):
        table = (
            # heads, KV heads, head size, devices, KV heads on a device
            (8, 2, 8, 8, 1), (8, 1, 8, 2, 1), (8, 1, 8, 8, 1),
            (8, 4, 8, 8, 1), (8, 8, 8, 8, 1), (8, 8, 8, 4, 2),
            (12, 2, 8, 6, 1), (12, 3, 8, 12, 1))
        for heads, kv, size, tp, held in table:
            for axis in ("tp", "model"):
                with self.subTest(kv=kv, tp=tp, axis=axis), \
                        tempfile.TemporaryDirectory() as folder:
                    name = "model.layers.0.self_attn."
                    plan = self.small(
                        folder, tp, {
                            name + "q_proj.weight": [heads * size, 64],
                            name + "k_proj.weight": [kv * size, 64],
                            name + "k_proj.bias": [kv * size],
                            name + "v_proj.weight": [kv * size, 64],
                            name + "v_proj.bias": [kv * size],
                            name + "o_proj.weight": [64, heads * size]},
                        axis=axis, num_attention_heads=heads,
                        num_key_value_heads=kv)
                    for part in "kv":
                        for leaf in ("weight", "bias"):
                            one = plan["params"][f"{name}{part}_proj.{leaf}"]
                            self.assertEqual(one["shard_shape"][0],
                                             held * size)

    def test_layers_with_different_numbers_of_heads(self):
        with tempfile.TemporaryDirectory() as folder:
            name = "model.layers.{}.self_attn.{}_proj.weight"
            plan = self.small(
                folder, 8, {
                    name.format(layer, part): [heads * 8, 64]
                    for layer, kv in ((0, 4), (1, 2), (2, 8))
                    for part, heads in (("q", 8), ("k", kv), ("v", kv))},
                num_key_value_heads=4)
            for layer, kv in ((0, 4), (1, 2), (2, 8)):
                one = plan["params"][name.format(layer, "k")]
                self.assertEqual(one["shard_shape"], [8, 64])
                self.assertEqual(one["spec"][0],
                                 f"tp:(1){kv}" if kv < 8 else "tp")

    def test_numbers_of_heads_without_common_factors_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            name = "model.layers.{}.self_attn.{}_proj.weight"
            err = self.small(
                folder, 12, {
                    name.format(layer, part): [heads * 8, 64]
                    for layer, kv in ((0, 4), (1, 6))
                    for part, heads in (("q", 12), ("k", kv), ("v", kv))},
                rc=2, num_attention_heads=12, num_key_value_heads=4)
            self.assertIn("`kv_replicate`: layers with different numbers of "
                          "KV heads need factors of one axis that do not "
                          "divide each other",
                          err)

    def test_an_axis_that_is_no_multiple_is_refused_once(self):
        for tp in (12, 3):
            got = run("plan", *LLAMA, *PACK, "--mesh", f"tp:{tp}",
                      "--kv-replicate")
            self.assertEqual((got.rc, got.out), (1, ""))
            self.assertEqual(got.err.count("KV heads cannot be replicated"), 1)
            self.assertIn(f"whose 8 KV heads cannot be replicated evenly over "
                          f"{tp} devices", got.err)

    def test_a_fused_projection_is_refused_by_name(self):
        with tempfile.TemporaryDirectory() as folder:
            params = {"model.layers.0.self_attn.qkv_proj.weight":
                      [(8 + 2 * 2) * 8, 64]}
            err = self.small(folder, 8, params, rc=1, num_key_value_heads=2)
            self.assertIn("qkv_proj", err)
            self.assertIn("has query heads next to KV heads", err)
            # On devices that divide the heads nothing is replicated.
            self.small(folder, 2, params, num_key_value_heads=2)

    def test_without_the_number_of_heads_it_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            got = run("plan", "--mesh", "tp:8", "--rules",
                      write(folder, "rules.yaml", RULES), "--manifest",
                      write(folder, "manifest.json", manifest(
                          {"layers.0.k_proj.weight": [16, 64]})),
                      "--no-project")
            self.assertEqual((got.rc, got.out), (1, ""))
            self.assertIn("number of KV heads is not known", got.err)
            self.assertIn("--model", got.err)

    def test_a_plan_is_read_back_and_its_edits_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            plan = self.plan(*LLAMA, *PACK, "--mesh", "tp:16",
                             "--kv-replicate")
            path = write(folder, "plan.json", plan)
            for command in (["diff", path, path], ["cost", "--plan", path, "--mode", "decode",
                             "--batch", "1", "--kv-len", "128", *LLAMA[2:4]]):
                got = run(*command)
                self.assertEqual(got.rc, 0, (command, got.err))
            plan["params"][K]["kv_replicate"]["heads"] = 4
            got = run("diff", path, write(folder, "other.json", plan))
            self.assertEqual(got.rc, 2)
            self.assertIn("the plan was edited: `kv_replicate` is", got.err)

    def test_cost_of_the_cache_by_hand(self):
        # 2 * 32 layers * 1 head * 128 * 2 bytes for each token of a device.
        for tp, heads in ((8, 1), (16, 1), (32, 1), (4, 2)):
            got = run("cost", *LLAMA, *PACK, "--mesh", f"tp:{tp}",
                      "--kv-replicate", "--mode", "decode", "--batch", "16",
                      "--kv-len", "8192", "--format", "json")
            self.assertIn(got.rc, (0, 1), got.err)
            memory = json.loads(got.out)["memory"]
            self.assertEqual(memory["kv_cache"],
                             2 * 32 * heads * 128 * 2 * 16 * 8192)

    def test_gradients_are_reduced_over_the_replicas(self):
        arguments = [*LLAMA, *PACK, "--mesh", "tp:16", "--batch", "16",
                     "--seq", "256", "--format", "json"]
        with_replicas = json.loads(
            run("cost", *arguments, "--kv-replicate").out)
        # Groups of two devices sum what the query heads of both give the
        # gradients of a head.
        self.assertTrue([
            one for one in with_replicas["communication"]
            if one["axes"] == ["tp:(8)2"] and
            one["collective"] == "all_reduce" and
            one["part"] == "attention" and one["phase"] == "backward"])

    def test_a_search_computes_and_proves_with_replicas(self):
        work = [*LLAMA, *PACK, "--mesh", "tp:16", "--batch", "16", "--seq", "1024",
                "--profile", "h100-sxm", "--kv-replicate", "--format", "json"]
        found = json.loads(self.check(
            run("search", *work, "--keep", "mesh,rules", "--unmeasured"), 0).out)
        winner = found["winner"]
        self.assertTrue(winner["proved"])
        cost = json.loads(run("cost", *work, "--remat", winner["remat"], "--zero",
                              winner["zero"], "--microbatches",
                              winner["microbatches"]).out)
        self.assertEqual(winner["expected_s"], cost["time"]["expected_s"])
        self.assertEqual(winner["bytes_per_device"], cost["memory"]["peak"]["expected"])

    def test_decoding_gathers_no_keys(self):
        got = run("cost", *LLAMA, *PACK, "--mesh", "tp:16", "--kv-replicate",
                  "--mode", "decode", "--batch", "16", "--kv-len", "8192",
                  "--format", "json")
        for one in json.loads(got.out)["communication"]:
            # The keys of a layer have 16 * 8192 * 128 elements on a device.
            self.assertLess(one["bytes_per_device"], 16 * 8192 * 128)

    def test_verify_proves_attention(self):
        with tempfile.TemporaryDirectory() as folder:
            rules = ["--rules", write(
                folder, "rules.yaml", "version: 1\nkv_replicate: true\n"
                "extends: [builtin:llama/hf]\nrules: []\n")]
            for tp, mode in ((16, "prefill"), (16, "decode"), (32, "decode"),
                             (16, "train")):
                with self.subTest(tp=tp, mode=mode):
                    got = run("verify", "step", *LLAMA, *rules, "--mesh",
                              f"tp:{tp}", "--mode", mode, "--format", "json")
                    self.assertEqual(got.rc, 0, got.err)
                    (step,) = json.loads(got.out)["steps"]
                    self.assertEqual(step["status"], "pass")
            got = run("verify", *LLAMA, *rules, "--mesh", "tp:16",
                      "--operation", "flash_attn2", "--mode",
                      "prefill,decode", "--layout", "bthd", "--dtype",
                      "float32", "--format", "json")
            self.assertEqual(got.rc, 0, got.err)
            self.assertEqual(json.loads(got.out)["summary"]["fail"], 0)

    def test_no_lint_reports_replicated_heads(self):
        check = ["check", *LLAMA, *PACK, "--mesh", "tp:16"]
        got = run(*check)
        self.assertIn("kv_replicate: true", got.err + got.out)
        got = run(*check, "--kv-replicate")
        self.assertEqual(got.rc, 0, got.err + got.out)
        self.assertNotIn("KV head", got.err + got.out)

    def test_exports(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plan.json")
            got = run("plan", *LLAMA, *PACK, "--mesh", "tp:16",
                      "--kv-replicate", "-o", path)
            self.assertEqual(got.rc, 0, got.err)
            for name, reason in (("jax", "a NamedSharding shards"),
                                 ("dtensor", "complete axes of the mesh")):
                got = run("export", name, "--plan", path)
                self.assertEqual((got.rc, got.out), (2, ""), name)
                self.assertIn(reason, got.err)
                self.assertIn("k_proj", got.err)
            got = run("export", "vllm", "--plan", path, "--format", "json")
            self.assertEqual(got.rc, 0, got.err)
            key = json.loads(got.out)["params"][
                "model.layers.0.self_attn.k_proj.weight"]
            self.assertEqual(key, {"parallel": "column", "shard_dim": 0,
                                   "shard_shape": [128, key["shard_shape"][1]],
                                   "replicas": 2})
            got = run("export", "shardy", "--plan", path)
            self.assertEqual(got.rc, 0, got.err)
            self.assertIn('[{"tp":(1)8}, {}]', got.out)
            got = run("export", "hlo", "--plan", path)
            self.assertEqual(got.rc, 0, got.err)
            self.assertIn("devices=[8,1,2]<=[16] last_tile_dim_replicate",
                          got.out)

    def test_vllm_has_whole_heads_and_a_padded_vocabulary(self):
        config = {"model_type": "llama", "vocab_size": 100278,
                  "hidden_size": 2560, "intermediate_size": 9728,
                  "num_hidden_layers": 2, "num_attention_heads": 32,
                  "num_key_value_heads": 8, "head_dim": 128,
                  "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
        with tempfile.TemporaryDirectory() as folder:
            def exported(tensor, *more, **changes):
                path = os.path.join(folder, "config.json")
                with open(path, "w", encoding="utf-8") as file:
                    json.dump({**config, **changes}, file)
                return run("export", "vllm", "--format", "json", "--no-project",
                           "--mesh", f"tp:{tensor}", "--rules", "auto",
                           "--model", path, *more)
            # The engine replicates heads, whatever the rules say. A plan that
            # was made without is refused.
            exported(16)
            plan = os.path.join(folder, "plan.json")
            run("plan", "--no-project", "--mesh", "tp:16", "--rules", "auto",
                "--model", os.path.join(folder, "config.json"), "-q", "-o",
                plan)
            half = run("export", "vllm", "--format", "json", "--plan", plan)
            self.assertEqual((half.rc, half.out), (2, ""), half.err)
            self.assertIn("`vllm` gives each rank whole KV heads, and the plan "
                          "gives it 64 of the 128 rows of a head", half.err)
            self.assertIn("`--kv-replicate`", half.err)
            params = json.loads(exported(16).out)["params"]
            self.assertEqual(json.loads(exported(16, "--kv-replicate").out),
                             {"tensor_parallel_size": 16, "params": params})
            for name in ("model.embed_tokens.weight", "lm_head.weight"):
                self.assertEqual(params[name],
                                 {"parallel": "column", "shard_dim": 0,
                                  "shard_shape": [100288 // 16, 2560],
                                  "padded_size": 100288})
            query = params["model.layers.0.self_attn.q_proj.weight"]
            self.assertEqual(query["shard_shape"], [256, 2560])
            self.assertNotIn("replicas", query)
            heads = exported(4, num_attention_heads=14, num_key_value_heads=2,
                             head_dim=64, hidden_size=896)
            self.assertEqual((heads.rc, heads.out), (2, ""), heads.err)
            self.assertIn("`vllm` refuses this layout: Total number of "
                          "attention heads (14) must be divisible by tensor "
                          "parallel size (4)", heads.err)
            # Rules of one's own, because those of the family replicate a fused
            # projection.
            rules = os.path.join(folder, "rules.yaml")
            with open(rules, "w", encoding="utf-8") as file:
                file.write("version: 1\nrules:\n"
                           "  - {match: 'qkv_proj', spec: [tp, null]}\n"
                           "  - {match: '.*', spec: []}\n")
            manifest = os.path.join(folder, "manifest.json")
            with open(manifest, "w", encoding="utf-8") as file:
                json.dump({"model.layers.0.self_attn.qkv_proj.weight": {
                    "shape": [48 * 128, 2560], "dtype": "bfloat16"}}, file)
            inputs = ["--no-project", "--mesh", "tp:16", "--rules", rules,
                      "--manifest", manifest, "--model",
                      os.path.join(folder, "config.json")]
            fused = run("export", "vllm", "--format", "json", *inputs)
            self.assertEqual((fused.rc, fused.out), (1, ""), fused.err)
            self.assertIn("SHD202", fused.err)
            run("plan", *inputs, "-q", "-o", plan)
            fused = run("export", "vllm", "--format", "json", "--plan", plan)
            self.assertEqual((fused.rc, fused.out), (2, ""), fused.err)
            self.assertIn(", which also has the query heads, and one split "
                          "dimension does not state it", fused.err)

    def test_split_gives_each_device_its_head_and_merge_takes_one(self):
        with tempfile.TemporaryDirectory() as folder:
            name = "model.layers.0.self_attn.k_proj.weight"
            data = bytes(range(16 * 2)) * 4
            header = json.dumps({name: {
                "dtype": "BF16", "shape": [16, 4],
                "data_offsets": [0, len(data)]}}).encode()
            whole = os.path.join(folder, "model.safetensors")
            with open(whole, "wb") as file:
                file.write(struct.pack("<Q", len(header)) + header + data)
            plan = self.small(folder, 8, {name: [16, 4]},
                              num_key_value_heads=2)
            path = write(folder, "plan.json", plan)
            out = os.path.join(folder, "shards")
            got = run("checkpoint", "split", "--plan", path, "--checkpoint", whole, "--output",
                      out)
            self.assertEqual(got.rc, 0, got.err)
            for device in range(8):
                with open(os.path.join(out, f"device-{device:05}.safetensors"),
                          "rb") as file:
                    content = file.read()
                head = device * 2 // 8
                (length,) = struct.unpack("<Q", content[:8])
                self.assertEqual(content[8 + length:],
                                 data[head * 64:head * 64 + 64])
            merged = os.path.join(folder, "merged.safetensors")
            got = run("checkpoint", "merge", out, "--output", merged)
            self.assertEqual(got.rc, 0, got.err)
            with open(merged, "rb") as file:
                self.assertTrue(file.read().endswith(data))


if __name__ == "__main__":
    unittest.main()
