"""The Gemma packs shard KV heads where the model has several that tp divides."""

import json
import os
import tempfile
import unittest

from driver import MODELS, TESTDATA, Case, run


def inputs(model, rules="auto", config=True):
    return ["--manifest", os.path.join(MODELS,
                                       f"{model}.hf.manifest.json.gz"),
            "--rules", rules, "--no-project",
            *(["--model", os.path.join(TESTDATA, "configs",
                                       f"{model}.config.json")]
              if config else [])]


class PackAxes(Case):
    def spec(self, *arguments):
        got = run("plan", *arguments)
        self.assertEqual(got.rc, 0, got.err)
        plan = json.loads(got.out)
        (spec,) = {json.dumps(one["spec"]) for name, one
                   in plan["params"].items() if "k_proj.weight" in name
                   and "vision" not in name}
        return json.loads(spec)

    def test_by_the_number_of_kv_heads(self):
        # Gemma 2 9B has 8 KV heads, Gemma 2B has one.
        for model, mesh, sharded in (("gemma-2-9b", "fsdp:2,tp:8", True),
                                     ("gemma-2-9b", "tp:16", False),
                                     ("gemma-2-9b", "fsdp:8", False),
                                     ("gemma-2b", "fsdp:2,tp:8", False),
                                     ("gemma-3-27b", "tp:16", True)):
            with self.subTest(model=model, mesh=mesh):
                spec = self.spec(*inputs(model), "--mesh", mesh)
                self.assertEqual("tp" in json.dumps(spec), sharded, spec)

    def test_resolve_gives_the_axes_of_the_plan(self):
        for model, mesh in (("gemma-2-9b", "fsdp:2,tp:8"),
                            ("gemma-2-9b", "tp:16"),
                            ("gemma-2b", "fsdp:2,tp:8")):
            for config in (True, False):
                with self.subTest(model=model, mesh=mesh, config=config):
                    given = inputs(model, "builtin:gemma/hf", config)
                    spec = self.spec(*given, "--mesh", mesh)
                    # `resolve` has no manifest.
                    got = run("resolve", "[KV_HEAD]", *given[2:], "--mesh",
                              mesh)
                    self.assertEqual(got.rc, 0, got.err)
                    self.assertEqual(json.loads(got.out)[0], spec[0])

    def test_resolve_refuses_what_is_no_configuration(self):
        got = run("resolve", "[KV_HEAD]", "--rules", "builtin:gemma/hf",
                  "--mesh", "tp:8", "--model", "/nowhere/config.json")
        self.assertEqual((got.rc, got.out), (2, ""))
        self.assertIn("/nowhere/config.json", got.err)

    def test_without_a_configuration_they_are_replicated(self):
        spec = self.spec(*inputs("gemma-2-9b", config=False), "--mesh",
                         "fsdp:2,tp:8")
        self.assertIsNone(spec[0])

    def test_a_rule_of_a_file_stays(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rules.yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write("version: 1\nextends: [builtin:gemma]\n"
                           "axes: {kv_head: null}\n")
            self.assertIsNone(self.spec(*inputs("gemma-2-9b", path), "--mesh",
                                        "fsdp:2,tp:8")[0])

    def test_fit_chooses_for_each_mesh_as_cost_does(self):
        step = [*inputs("gemma-2-9b"), "--batch", "32", "--seq", "2048",
                "--remat", "nothing_saveable"]
        for more in ([], ["--mesh", "fsdp:2,tp:8"]):
            fit = json.loads(run("search", "--all", *step, *more, "--devices", "16",
                                 "--axes", "fsdp,tp", "--format", "json").out)
            for one in fit["meshes"]:
                mesh = ",".join(f"{name}:{size}"
                                for name, size in one["axes"].items())
                with self.subTest(mesh=mesh, more=more):
                    self.assertTrue(one["legal"], one["reason"])
                    cost = json.loads(run("cost", *step, "--mesh", mesh,
                                          "--format", "json").out)
                    self.assertEqual(one["bytes_per_device"],
                                     cost["memory"]["total"])
                    self.assertEqual(one["communication"],
                                     cost["communication_bytes"]["total"])

    def test_it_is_faster(self):
        step = ["--mesh", "fsdp:4,tp:8", "--batch", "64", "--seq", "4096",
                "--profile", "h100-sxm", "--format", "json"]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rules.yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write("version: 1\nextends: [builtin:gemma]\n"
                           "axes: {kv_head: null}\n")
            replicated = json.loads(run(
                "cost", *inputs("gemma-2-9b", path), *step).out)
        chosen = json.loads(run("cost", *inputs("gemma-2-9b"), *step).out)
        self.assertLess(chosen["time"]["expected_s"],
                        replicated["time"]["expected_s"])


if __name__ == "__main__":
    unittest.main()
