"""`shardc explain`, `show manifest` and `show rules`: names in every form, and what is
read back. What `resolve` prints is in testdata/golden/commands/resolve.txt."""

import unittest

import driver
from driver import Case, run
from plan_case import LLAMA, MESH


class Show(Case):
    def test_explain(self):
        name = "model/layers/0/self_attn/q_proj/kernel"
        args = [*MESH, "--rules", "builtin:llama", "--manifest", LLAMA]
        text = self.check(run("explain", name, *args), 0).out
        for word in (name, "no match", "match", "train", "decode", "shard"):
            self.assertIn(word, text)
        story = self.check(run("explain", name, *args, "--format", "json"),
                           0).json()
        self.assertEqual(story["modes"]["train"]["spec"], ["fsdp", "tp"])
        dotted = name.replace("/", ".")
        self.assertEqual(text, self.check(run("explain", dotted, *args),
                                          0).out)
        wrong = self.check(run("explain", name[:-2], *args), 2)
        self.assertIn(name, wrong.err)

    def test_manifest_round_trip(self):
        first = self.check(run("show", "manifest", "--manifest", LLAMA, "--format",
                               "json"), 0).out
        again = self.check(run("show", "manifest", "--manifest", "-", "--format",
                               "json", stdin=first), 0).out
        self.assertEqual(first, again)
        text = self.check(run("show", "manifest", "--manifest", LLAMA), 0).out
        self.assertIn("8,030,261,248", text)
        self.assertIn("model/layers/*/self_attn/q_proj/kernel", text)

    def test_rules_lists_packs(self):
        packs = self.check(run("show", "rules"), 0).out.split()
        self.assertIn("builtin:llama/flax", packs)
        for pack in packs:
            shown = self.check(run("show", "rules", "--rules", pack, "--format",
                                   "json"), 0).json()
            self.assertGreater(len(shown["rules"]), 0)

    def test_help_of_every_command_has_an_example(self):
        for name in driver.commands():
            shown = self.check(run(name, "--help"), 0).out
            self.assertIn("shardc " + name, shown.split("Example:")[1])


if __name__ == "__main__":
    unittest.main()
