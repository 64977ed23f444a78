"""`shardc show mesh`, `rules --resolved`, `import eformer`, `resolve`, `attention`."""

import json
import os
import tempfile
import unittest

from driver import ROOT, Case, run


class Mesh(Case):
    def test_ranks_of_each_process(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "mesh.yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write("axes: {dp: 2, tp: 8, sp: 1}\nprocesses: 4\n")
            shown = self.check(run("show", "mesh", "--mesh", path, "--by-process",
                                   "--format", "json"), 0).json()
            self.assertEqual(shown["host_mesh"], [1, 4, 1])
            self.assertEqual(shown["grid"],
                             [[[i] for i in range(8)],
                              [[i] for i in range(8, 16)]])
            self.assertEqual(shown["ranks"][3], {
                "process": 3, "slice": 0, "devices": [12, 13, 14, 15],
                "mp_node_size": 2, "dp_node_size": 2,
                "dp_node_rank": 1, "mp_node_rank": 1})
            text = self.check(run("show", "mesh", "--mesh", path, "--by-process"), 0).out
            self.assertIn("process 3: devices 12-15, dp rank 1 of 2, "
                          "mp rank 1 of 2\n", text)

    def test_renamed_tensor_parallelism(self):
        with tempfile.TemporaryDirectory() as folder:
            mesh = os.path.join(folder, "mesh.yaml")
            with open(mesh, "w", encoding="utf-8") as file:
                file.write("axes: {dp: 2, model: 8}\nprocesses: 4\n")
            rules = os.path.join(folder, "rules.yaml")
            with open(rules, "w", encoding="utf-8") as file:
                file.write("version: 1\naxes: {tensor_parallel: model}\n")
            shown = self.check(run("show", "mesh", "--mesh", mesh, "--rules", rules,
                                   "--by-process", "--format", "json"), 0).json()
            self.assertEqual(shown["ranks"][0]["mp_node_size"], 2)


    def test_sizes_alone_are_those_of_the_default_axes(self):
        for text, axes in (("1,-1,1,1", "dp=1 fsdp=8 tp=1 sp=1"),
                           ("1,-1,1,2,1", "dp=1 fsdp=4 ep=1 tp=2 sp=1"),
                           ("!2, 1,4,1", "dp=2 fsdp=1 tp=4 sp=1")):
            shown = run("show", "mesh", "--mesh", text, "--devices", "8")
            self.assertEqual(self.check(shown, 0).out.split("   ")[0], axes)
        for text in ("2,4", "1,1,1,1,1,8", "2,x,1,1", "1,,1,8"):
            self.check(run("show", "mesh", "--mesh", text, "--devices", "8"), 2)
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "shardc.yaml"), "w") as file:
                file.write("version: 1\ntargets:\n  t: {mesh: '1,8,1,1'}\n")
            shown = run("show", "mesh", "--target", "t", cwd=folder)
            self.assertIn("dp=1 fsdp=8 tp=1 sp=1   8 devices\n",
                          self.check(shown, 0).out)

    def test_processes_of_a_mesh_without_a_file(self):
        given = ("--mesh", "dp:2,tp:8", "--processes", "4")
        shown = self.check(run("show", "mesh", *given, "--by-process", "--format", "json"),
                           0).json()
        self.assertEqual(shown["processes"], 4)
        self.assertEqual(shown["ranks"][3]["devices"], [12, 13, 14, 15])
        plan = self.check(run(
            "plan", *given, "--rules", "builtin:llama", "--manifest",
            os.path.join(ROOT, "testdata", "models",
                         "llama-3-8b.hf.manifest.json"), "--quiet"), 0).json()
        self.assertEqual(plan["mesh"]["processes"], 4)
        for wrong in ("3", "0", "x"):
            self.check(run("show", "mesh", "--mesh", "dp:2,tp:8", "--processes",
                           wrong), 2)


class Rules(Case):
    def test_resolved_rules_read_back(self):
        first = self.check(run("show", "rules", "--rules", "builtin:llama/flax",
                               "--resolved", "--format", "json"), 0)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "all.yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(first.out)
            second = self.check(run("show", "rules", "--rules", path, "--resolved",
                                    "--format", "json"), 0)
        self.assertEqual(first.out, second.out)
        self.assertEqual(first.json()["axes"]["batch"], ["fsdp", "dp"])

    def test_sections_that_are_left_out_are_noted(self):
        given = ("show", "rules", "--rules", "builtin:llama/hf", "--resolved")
        result = self.check(run(*given), 0)
        self.assertNotIn("model", result.json())
        self.assertEqual(
            "note: the `model:` section of `builtin:llama/hf` is left out; "
            '`"model": {"extends": "builtin:llama/hf"}` in the result adds '
            "it\n", result.err)
        self.assertEqual(self.check(run(*given, "--quiet"), 0).err, "")
        with tempfile.TemporaryDirectory() as folder:
            # The remedy works.
            resolved = result.json()
            resolved["model"] = {"extends": "builtin:llama/hf"}
            with open(os.path.join(folder, "all.json"), "w",
                      encoding="utf-8") as file:
                json.dump(resolved, file)
            proof = ("verify", "step", "--mesh", "tp:2", "--model",
                     os.path.join(ROOT, "testdata", "configs",
                                  "llama-2-13b.config.json"),
                     "--mode", "decode", "--format", "json")
            self.assertEqual(
                self.check(run(*proof, "--rules", os.path.join(
                    folder, "all.json")), 0).json(),
                self.check(run(*proof, "--rules", "builtin:llama/hf"),
                           0).json())
            with open(os.path.join(folder, "r.yaml"), "w",
                      encoding="utf-8") as file:
                file.write("stages: {axis: pp}\nrules: []\n")
            result = self.check(run("show", "rules", "--rules", "r.yaml",
                                    "--resolved", cwd=folder), 0)
        self.assertNotIn("stages", result.json())
        self.assertEqual("note: the `stages:` section of `r.yaml` is left "
                         "out; copy it to the result\n", result.err)

    def test_an_axis_that_a_pack_chooses_by_the_model_is_noted(self):
        result = self.check(run("show", "rules", "--rules", "builtin:gemma/hf",
                                "--resolved"), 0)
        self.assertIn(
            "note: the result replicates KV heads, which `builtin:gemma/hf` "
            "shards if a model has several and the mesh divides them; without "
            "`kv_head` and `decode_kv_head` the result shards them\n",
            result.err)
        resolved = result.json()
        for rule in ("kv_head", "decode_kv_head"):
            self.assertIsNone(resolved["axes"].pop(rule))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "all.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(resolved, file)
            plan = ("plan", "--quiet", "--mesh", "tp:4", "--model",
                    os.path.join(ROOT, "testdata", "configs",
                                 "gemma-2-9b.config.json"))
            self.assertEqual(
                self.check(run(*plan, "--rules", path),
                           0).json()["fingerprint"],
                self.check(run(*plan, "--rules", "builtin:gemma/hf"),
                           0).json()["fingerprint"])

    def test_without_rules_the_defaults_are_shown(self):
        shown = self.check(run("show", "rules", "--resolved"), 0).json()
        self.assertEqual(shown["rules"], [])
        self.assertEqual(len(shown["axes"]), 27)

    def test_two_separators_are_refused(self):
        result = self.check(run("show", "rules", "--rules", "builtin:llama/flax",
                                "--rules", "builtin:llama/hf", "--resolved"), 2)
        self.assertIn("both separators", result.err)


class Import(Case):
    AXES = {"tensor_parallel_axis": "model", "batch_axis": ["fsdp", "dp"],
            "vocab_axis": None, "decode_head_axis": []}

    def test_eformer_axes_become_a_rules_file(self):
        for data in (self.AXES, {"paxis": self.AXES}):
            result = self.check(run("import", "eformer", "-",
                                    stdin=json.dumps(data)), 0)
            self.assertEqual(result.out,
                             "version: 1\n"
                             "axes:\n"
                             "  tensor_parallel: model\n"
                             "  batch: [fsdp, dp]\n"
                             "  vocab: null\n"
                             "  decode_head: []\n")

    def test_imported_axes_resolve(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "axes.yaml")
            self.check(run("import", "eformer", "-", "-o", path,
                           "--format", "json", stdin=json.dumps(self.AXES)), 0)
            for mode, spec in (("train", ["model", None]),
                               ("decode", [None, None])):
                got = self.check(run("resolve", "[HEAD, VOCAB]", "--rules",
                                     path, "--mesh", "model:4", "--mode", mode,
                                     "--format", "json"), 0).json()
                self.assertEqual(got["spec"], spec)

    def test_what_cannot_be_imported(self):
        self.check(run("import", "eformer", "-", stdin='{"head_axis": 3}'), 2)
        self.check(run("import", "eformer", "-", stdin="["), 2)
        result = self.check(run("import", "unheard", "-", stdin="{}"), 2)
        self.assertIn("`eformer`", result.err)


class Attention(Case):
    def test_packed_tokens(self):
        specs = self.check(run("resolve", "attention", "--layout", "thd", "--mesh",
                               "fsdp:2,dp:2,tp:2,sp:2", "--format", "json"),
                           0).json()
        self.assertEqual(specs["query"], [["fsdp", "dp"], "tp", None])
        self.assertEqual(specs["cu_seqlens"], [None])


class Registrations(Case):
    MANIFEST = ('{"schema": "shardc.manifest/v1", "params": '
                '{"w": {"shape": [8], "dtype": "F32"}}}')

    def inputs(self, folder, rules):
        for name, text in (("r.yaml", rules), ("m.json", self.MANIFEST)):
            with open(os.path.join(folder, name), "w",
                      encoding="utf-8") as file:
                file.write(text)
        return ("--no-project", "--mesh", "fsdp:2,tp:2",
                "--rules", os.path.join(folder, "r.yaml"),
                "--manifest", os.path.join(folder, "m.json"))

    def test_export_eformer_refuses_registrations(self):
        with tempfile.TemporaryDirectory() as folder:
            inputs = self.inputs(folder, "register: {X: {rule: tp}}\n"
                                         "rules: [{match: w, spec: [X]}]\n")
            done = self.check(run("export", "eformer", *inputs), 2)
        self.assertIn("`X` is registered", done.err)
        self.assertEqual(done.out, "")

    def test_an_axis_twice_in_attention_is_placed_at_the_written_rule(self):
        with tempfile.TemporaryDirectory() as folder:
            inputs = self.inputs(folder, "axes: {data_parallel: tp}\n"
                                         "rules: [{match: w, spec: []}]\n")
            done = run("check", *inputs, "--format", "concise")
        lines = [line for line in done.out.splitlines()
                 if "SHD203" in line and "attention" in line]
        self.assertTrue(lines, repr(done))
        for line in lines:
            self.assertIn("r.yaml:1:", line)


if __name__ == "__main__":
    unittest.main()
