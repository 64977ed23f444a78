"""The module of the playground prints what the native program prints: for the
same files the same bytes on standard output and error, and the same exit status.
Needs Node and what `tests/bootstrap playground` builds.

SHARDC_EVERY=1 compares every bundled model; otherwise some of them.
"""

import gzip
import json
import os
import unittest

from native import MODELS, PACKS, Folder, arguments, inputs

EVERY = int(os.environ.get("SHARDC_EVERY", "9"))
MESHES = ["dp:2,fsdp:8,tp:4", "fsdp:16,tp:8", "tp:3", "fsdp:-1", "tp:x", ""]
LAYER = "model.layers.0.mlp.up_proj.weight"


class Commands(unittest.TestCase):
    maxDiff = 2000

    def same(self, folder, *command):
        with self.subTest(" ".join(command)):
            native = folder.native(*command)
            self.assertEqual(native, folder.compiled(*command))
            return native

    def test_every_command_on_one_model(self):
        files = inputs()
        folder = Folder(self, files)
        all_inputs = arguments(files, "dp:2,fsdp:8,tp:4")
        place = ["--mesh", "dp:2,fsdp:8,tp:4", "--rules", "rules.yaml"]
        for command in (
                ["plan", *all_inputs],
                ["check", *all_inputs, "--format", "json"],
                ["check", *all_inputs, "--memory", "16GiB", "--notes"],
                ["check", *all_inputs, "--format", "sarif"],
                ["explain", LAYER, *all_inputs],
                ["explain", LAYER, *all_inputs, "--ops", "train,decode"],
                ["explain", "SHD104"],
                ["explain", "no-such-name", *all_inputs],
                ["resolve", "[BATCH, [FSDP, SP], _]", *place],
                ["resolve", "[BATCH, HEAD", *place],
                ["resolve", "attention", *place, "--mode", "decode"],
                ["show", "mesh", *place, "--by-process", "--processes", "8"],
                ["show", "manifest", "--manifest", "model.json.gz"],
                ["show", "rules", "--rules", "rules.yaml"],
                ["cost", *all_inputs, "--batch", "64", "--seq", "8192"],
                ["show", "layout", LAYER, *all_inputs],
                ["show", "mesh", "--ascii", *place],
                ["show", "memory", *all_inputs, "--batch", "64", "--seq",
                 "8192"],
                ["export", "jax", *all_inputs],
                ["export", "csv", *all_inputs],
                ["report", *all_inputs, "--batch", "64", "--seq", "8192",
                 "--kv-len", "8192", "--memory", "16GiB"],
                ["suggest", "--mesh", "fsdp:8,tp:4", "--manifest",
                 "model.json.gz", "--model", "config.json", "--no-project"],
                ["plan", "--no-such-flag"],
                ["plan", "--help"]):
            self.same(folder, *command)

    def test_plans_are_compared(self):
        files = inputs("gpt2.hf")
        folder = Folder(self, files)
        for name, mesh in (("a.json", "tp:2"), ("b.json", "fsdp:4,tp:2")):
            folder.native("plan", *arguments(files, mesh), "-q", "-o", name)
        status, _, _ = self.same(folder, "diff", "a.json", "b.json")
        self.assertEqual(1, status)
        self.same(folder, "diff", "a.json", "b.json", "--format", "json")
        self.same(folder, "diff", "a.json", "missing.json")

    def test_every_mesh(self):
        files = inputs("mixtral-8x7b.hf")
        folder = Folder(self, files)
        for mesh in MESHES:
            for command in (["plan", *arguments(files, mesh), "--keep-going"],
                            ["check", *arguments(files, mesh), "--format",
                             "json"]):
                self.same(folder, *command)

    def test_models(self):
        for name in list(MODELS)[::EVERY]:
            files = inputs(name)
            folder = Folder(self, files)
            for command in ("plan", "check", "report"):
                status, _, _ = self.same(
                    folder, command, *arguments(files, "fsdp:4,tp:2"))
                self.assertLess(status, 2)

    def test_rules_that_cannot_be_read(self):
        pack = PACKS["builtin:llama/hf"]
        for rules in ("\0", "version: 1\nrules: [", "version: 9\n",
                      "- a\n- b\n",
                      "version: 1\nrules:\n  - match: '('\n    spec: [tp]\n",
                      "a: &a [*a]\n", "'" + pack, pack.replace("FSDP", "FSPD"),
                      pack.replace("tp", "\u202e"), pack[:700],
                      "version: 1\nextends: builtin:none\n",
                      "version: 1\nextends: missing.yaml\n"):
            files = inputs(rules=rules, config=False)
            self.same(Folder(self, files), "check", *arguments(files, "tp:4"),
                      "--format", "json")

    def test_the_digest_of_inputs_is_the_same(self):
        folder = Folder(self, {
            "r.yaml": b"version: 1\nrules:\n  - {match: w, spec: [tp]}\n",
            "m.json": gzip.compress(json.dumps({
                "schema": "shardc.manifest/v1", "params": [
                    {"name": "w" * size, "shape": [8, size + 1],
                     "dtype": "F32"} for size in range(1, 80)]}).encode())})
        status, plan, _ = self.same(
            folder, "plan", "--mesh", "tp:2", "--rules", "r.yaml", "--manifest",
            "m.json", "--no-project")
        self.assertEqual(0, status)
        self.assertIn("sha256:", plan)

    def test_files_are_written_as_well(self):
        files = inputs()
        folder = Folder(self, files)
        self.same(folder, "plan", *arguments(files, "tp:4"), "-o", "plan.json")
        self.same(folder, "plan", *arguments(files, "tp:4"), "-o",
                  "missing/plan.json")


if __name__ == "__main__":
    unittest.main()
