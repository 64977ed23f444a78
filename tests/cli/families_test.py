"""Descriptions of model families that the program reads from a folder."""

import json
import os
import tempfile
import unittest

from driver import ROOT, FolderCase, run

EXAMPLE = os.path.join(ROOT, "examples", "own-family")
CONFIG = {"model_type": "acme", "dtype": "float32", "size": 4}
ACME = "version: 1\ntree: {wide: 'linear(size, 8)'}\n"


class Families(FolderCase):
    def setUp(self):
        super().setUp()
        os.mkdir(os.path.join(self.folder, ".git"))
        self.write("config.json", json.dumps(CONFIG))

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def run_here(self, rc, *args):
        return self.check(run(*args, cwd=self.folder), rc)

    def names(self, *args):
        found = self.run_here(0, "show", "manifest", "--model", "config.json",
                              "--format", "json", *args).json()
        return [one["name"] for one in found["params"]]

    def test_the_example_is_built_from_its_own_description(self):
        found = self.check(
            run("show", "manifest", "--model", os.path.join(EXAMPLE, "config.json"),
                "--families", os.path.join(EXAMPLE, "families"),
                "--format", "json"), 0).json()
        params = {one["name"]: one for one in found["params"]}
        pattern = "ACACACAA"
        for i, kind in enumerate(pattern):
            layer = f"model.layers.{i}."
            self.assertEqual(layer + "self_attn.q_proj.weight" in params,
                             kind == "A")
            self.assertEqual(layer + "mixer.weight" in params, kind == "C")
            self.assertEqual(params[layer + "router.weight"]["dtype"], "F32")
            self.assertEqual(params[layer + "mlp.down_proj"],
                             {"name": layer + "mlp.down_proj",
                              "shape": [8, 1024, 2816], "dtype": "BF16"})

    def test_the_option_and_the_key_of_a_project(self):
        unknown = self.run_here(2, "show", "manifest", "--model", "config.json")
        self.assertIn("--families DIR", unknown.err)
        self.write("own/acme.yaml", ACME)
        self.assertEqual(self.names("--families", "own"), ["wide.weight"])
        self.write("shardc.yaml",
                   "families: own\ntargets: {t: {mesh: 'tp:2', "
                   "rules: [r.yaml], model: config.json}}\n")
        self.write("r.yaml", "rules: [{match: wide, spec: [tp, null]}]\n")
        self.assertEqual(self.names(), ["wide.weight"])
        self.run_here(2, "show", "manifest", "--model", "config.json", "--no-project")
        for command in ("check", "plan", "cost", "show layout wide.weight", "report",
                        "search --profile h100-sxm"):
            with self.subTest(command):
                done = run(*command.split(), cwd=self.folder)
                self.assertIn(done.rc, (0, 1), repr(done))
        # The option wins over the key.
        self.write("other/acme.yaml", ACME.replace("wide", "narrow"))
        self.assertEqual(self.names("--families", "other"), ["narrow.weight"])

    def test_every_command_with_a_model_has_the_option(self):
        # These read the sizes of a cache from the config and build no tree.
        builds_none = {"kv", "verify kv"}
        with open(os.path.join(ROOT, "man", "commands.json"),
                  encoding="utf-8") as file:
            for command in json.load(file):
                options = {one["name"] for one in command["options"]}
                self.assertEqual("--model" in options
                                 and command["name"] not in builds_none,
                                 "--families" in options, command["name"])

    def test_a_family_that_replaces_a_bundled_one_is_noted(self):
        self.write("own/llama.yaml", "like: llama\n")
        self.write("config.json", json.dumps({
            "model_type": "llama", "vocab_size": 8, "hidden_size": 8,
            "intermediate_size": 8, "num_hidden_layers": 1,
            "num_attention_heads": 2, "dtype": "float32"}))
        done = self.run_here(0, "show", "manifest", "--model", "config.json",
                             "--families", "own")
        self.assertIn("in place of the bundled description", done.out)

    def test_bad_files_are_reported_with_their_place(self):
        cases = [
            ({"own/other.yaml": "tree: {a: nrom(1)}"},
             "own/other.yaml:1:8", "did you mean `norm`?"),
            ({"own/acme.yml": ACME}, "own/acme.yml", "rename the file"),
            ({"own/notes.txt": ""}, "own", "MODEL_TYPE.yaml"),
            ({}, "own", "cannot be read"),
        ]
        for number, (files, place, text) in enumerate(cases):
            with self.subTest(place):
                for name, content in files.items():
                    self.write(f"{number}/{name}", content)
                done = self.run_here(2, "show", "manifest", "--model", "config.json",
                                     "--families", f"{number}/own")
                self.assertEqual(done.out, "")
                self.assertIn(f"{number}/{place}", done.err)
                self.assertIn(text, done.err)

    def test_a_factor_of_itself_is_refused_by_every_command(self):
        self.write("own/acme.yaml", "version: 1\nfactors:\n  size: 2 * size\n"
                   "tree: {wide: 'linear(size, 8)'}\n")
        given = ["--model", "config.json", "--families", "own"]
        mesh = ["--mesh", "fsdp:2", "--rules", "auto"]
        for command in (["show", "manifest", *given], ["plan", *given, *mesh],
                        ["check", *given, *mesh], ["cost", *given, *mesh],
                        ["suggest", *given, "--mesh", "fsdp:2"]):
            done = self.run_here(2, *command, "--no-project")
            said = done.out + done.err
            self.assertIn("`size` is counted by itself", said)
            self.assertIn("own/acme.yaml:3:9", said)
            self.assertIn("write what it counts, such as `inner` or `stream`, or a "
                          "product of other factors", said)

    def test_a_project_reads_no_description_outside_its_repository(self):
        with tempfile.TemporaryDirectory() as outside:
            with open(os.path.join(outside, "acme.yaml"), "w",
                      encoding="utf-8") as file:
                file.write(ACME)
            os.mkdir(os.path.join(self.folder, "own"))
            os.symlink(os.path.join(outside, "acme.yaml"),
                       os.path.join(self.folder, "own", "acme.yaml"))
            for folder in ("own", outside):
                self.write("shardc.yaml", f"families: {folder}\n")
                done = self.run_here(2, "show", "manifest", "--model", "config.json")
                self.assertIn("leads out of the project's", done.err)
                self.assertIn("shardc.yaml:1:11", done.err)
            self.assertEqual(self.names("--allow-outside"), ["wide.weight"])


if __name__ == "__main__":
    unittest.main()
