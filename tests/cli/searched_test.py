"""The command that `shardc search` prints for the same figures runs, and prints
them, wherever the rules and the mesh are.
"""

import json
import os
import re
import shlex
import unittest

from driver import TESTDATA, run
from search_case import SearchCase

STEP = ["--no-project", "--model",
        os.path.join(TESTDATA, "configs", "llama-3.2-1b.config.json"),
        "--batch", "64", "--seq", "2048", "--profile", "h100-sxm",
        "--prove", "0"]


class Searched(SearchCase):
    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def agree(self, *flags, output=None):
        """The printed command, whose figures are the winner's."""
        found = self.described(
            run("search", *STEP, *flags, "--format", "json"), 0)["winner"]
        written = ["-o", output] if output else []
        text = self.check(run("search", *STEP, *flags, *written), 0).out
        command = re.search("^the same figures: shardc (.*)$", text, re.M)[1]
        cost = json.loads(self.check(
            run(*shlex.split(command), "--format", "json"), 0).out)
        self.assertEqual(cost["time"]["expected_s"], found["expected_s"])
        self.assertEqual(cost["memory"]["peak"]["expected"],
                         found["bytes_per_device"])
        return command

    def test_rules_may_be_outside_the_repository(self):
        rules = self.write("own.yaml", "version: 1\nextends: [builtin:llama]\n")
        flags = ["--mesh", "fsdp:4,tp:2", "--keep", "mesh,rules", "--rules"]
        command = self.agree(*flags, rules, output=self.path("out"))
        self.assertIn("--allow-outside", command)
        command = self.agree(*flags, "builtin:llama", output=self.path("pack"))
        self.assertNotIn("--allow-outside", command)

    def test_paths_are_quoted_for_a_shell(self):
        rules = self.write("its own.yaml",
                           "version: 1\nextends: [builtin:llama]\n")
        flags = ["--mesh", "fsdp:4,tp:2", "--keep", "mesh,rules", "--rules",
                 rules]
        self.agree(*flags)
        self.agree(*flags, output=self.path("the winner's"))

    def test_a_kept_mesh_has_its_slices_and_processes(self):
        mesh = self.write("mesh.yaml",
                          "axes: {dp: 2, fsdp: -1, tp: 2}\nslices: 2\n"
                          "dcn: {dp: 2}\nprocesses: 4\n")
        flags = ["--devices", "16", "--keep", "mesh,rules", "--rules",
                 "builtin:llama", "--mesh", mesh]
        self.agree(*flags)
        self.agree(*flags, output=self.path("out"))

    def test_a_configuration_without_an_epsilon_is_proved(self):
        # As published for MPT-7B, smaller.
        value = {"model_type": "mpt", "d_model": 512, "n_heads": 8,
                 "n_layers": 2, "expansion_ratio": 4, "vocab_size": 1024,
                 "max_seq_len": 2048, "no_bias": True,
                 "norm_type": "low_precision_layernorm",
                 "torch_dtype": "bfloat16",
                 "attn_config": {"alibi": True,
                                 "attn_type": "multihead_attention"}}
        model = self.write("config.json", json.dumps(value))
        found = self.described(
            run("search", "--no-project", "--model", model, "--batch", "8",
                "--seq", "64", "--profile", "h100-sxm", "--devices", "4",
                "--format", "json"), 0)
        self.assertEqual(found["proof"]["status"], "pass")

    def test_declared_stages_are_left_out(self):
        rules = self.write("own.yaml",
                           "version: 1\nextends: [builtin:llama]\n"
                           "stages: {axis: pp, microbatches: 8}\n")
        for mesh in (["--devices", "8"],
                     ["--mesh", "pp:2,fsdp:4", "--keep", "mesh"]):
            flags = [*mesh, "--keep", "rules", "--rules", rules]
            with self.subTest(mesh=mesh):
                self.assertIn("--stages none", self.agree(*flags))
                text = self.check(run("search", *STEP, *flags), 0).out
                self.assertRegex(text, "(?m)^assumed: .*--stages none")
                refused = run("search", *STEP, *flags, "-o", self.path("out"))
                self.check(refused, 2)
                self.assertIn("the rules declare `stages:`", refused.err)

    def test_rules_may_name_any_axis_of_a_kept_mesh(self):
        rules = self.write("own.yaml",
                           "version: 1\nextends: [builtin:llama]\n"
                           "axes: {vocab: rows}\nrules:\n"
                           "  - {match: embed_tokens, spec: [rows, null]}\n")
        self.agree("--mesh", "fsdp:4,rows:2", "--keep", "mesh,rules",
                   "--rules", rules)

    def test_rules_that_leave_parameters_out_are_reported(self):
        rules = self.write("own.yaml",
                           "version: 1\nrules:\n"
                           "  - {match: embed_tokens, spec: [axis, null]}\n")
        devices = ["--devices", "8", "--rules"]
        for given, rc, words in (("builtin:gpt2", 1, "[SHD102 other-naming]"),
                                 (rules, 2, "[SHD028 unknown-name]")):
            for keep in ([], ["--keep", "rules"]):
                with self.subTest(rules=given, keep=keep):
                    result = run("search", *STEP, *devices, given, *keep)
                    self.check(result, rc)
                    self.assertIn(words, result.err)
                    self.assertEqual(result.out, "")

    def test_a_target_name_is_no_way_out_of_the_folder(self):
        project = self.write(
            "shardc.yaml",
            "version: 1\ntargets:\n  ../out:\n    mesh: 'fsdp:4'\n"
            "    rules: [builtin:llama]\n"
            f"    model: {json.dumps(STEP[2])}\n    batch: 64\n")
        os.mkdir(self.path("a"))
        folder = self.path("a", "b")
        self.check(run("search", "--project", project, "--allow-outside",
                       "--seq", "2048", "--profile", "h100-sxm", "--prove",
                       "0", "-o", folder), 0)
        self.assertEqual(os.listdir(self.path("a")), ["b"])
        self.assertIn("searched.manifest.json", os.listdir(folder))
        self.check(run("cost", "--project", os.path.join(folder, "shardc.yaml"),
                       "--seq", "2048"), 0)

    def test_a_winner_in_the_front_is_proved_once(self):
        for prove in (1, 2):
            found = self.described(
                run("search", *STEP[:-2], "--devices", "4", "--mesh", "fsdp:4",
                    "--keep", "mesh,rules", "--prove", str(prove), "--format",
                    "json"), 0)
            proved = [one for one in found["front"] if one["proved"]]
            same = [one for one in proved if all(
                one[key] == found["winner"][key]
                for key in ("mesh", "remat", "microbatches", "zero"))]
            self.assertEqual((len(proved), len(same)), (prove, 1))


if __name__ == "__main__":
    unittest.main()
