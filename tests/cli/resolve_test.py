"""`shardc explain`, `resolve`, `attention`, `manifest`, `rules`."""

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

    def test_resolve(self):
        cases = [
            (["[BATCH, [FSDP, SP], _]"], [["fsdp", "dp"], ["fsdp", "sp"],
                                          None]),
            (["AttnQ", "--shape", "4,1,32,128"],
             [["fsdp", "dp"], "sp", "tp", None]),
            (["ColumnWise"], [["fsdp", "sp"], "tp"]),
            (["[BATCH]", "--mesh", "tp:4"], [None]),
            (["[BATCH, KV_LENGTH]", "--mode", "__autoregressive__"],
             [["fsdp", "dp"], "sp"]),
            (["[null, HEAD]", "--mode-dim", "-1", "--shape", "4,1"],
             [None, "tp"]),
        ]
        for args, spec in cases:
            with self.subTest(args=args):
                result = self.check(run("resolve", *args, "--format", "json"),
                                    0)
                self.assertEqual(result.json()["spec"], spec)
        self.assertEqual(
            self.check(run("resolve", "AttnQ", "--shape", "4,1,32,128",
                           "--format", "json"), 0).json()["mode"], "decode")
        self.check(run("resolve", "AttnQ"), 2)
        for shape in ("4,", ",4", "4,,4"):
            self.check(run("resolve", "[BATCH]", "--shape", shape), 2)

    def test_resolve_judges_a_shape_on_a_mesh(self):
        def resolve(*args, rc=0):
            return self.check(run("resolve", "--no-project", "--mesh",
                                  "fsdp:8,tp:4", *args), rc)
        vocab = ("[VOCAB, FSDP]", "--shape", "50257,768")
        wrong = resolve(*vocab, rc=1)
        self.assertEqual(wrong.out, "")
        self.assertIn('error[SHD202 indivisible-dimension]: dimension 0 is '
                      '50257, which "tp" splits into 4 parts: 50257 % 4 = 1\n'
                      '  --> AXES:1:2\n', wrong.err)
        for policy, axes, shape, spec in (
                ("drop", "[VOCAB, FSDP]", "50257,768", '[null, "fsdp"]'),
                ("drop", "[[FSDP, TP], _]", "8,4", "[null, null]"),
                ("shrink", "[[FSDP, TP], _]", "8,4", '["fsdp", null]'),
                ("shrink", "[HEAD, VOCAB]", "8,8", '["tp", null]'),
                ("shrink", "[TP, FSDP, _]", "4,8", '["tp", "fsdp"]'),
                ("error", "[TP, FSDP]", "4,8", '["tp", "fsdp"]')):
            got = resolve(axes, "--shape", shape, "--illegal", policy)
            self.assertEqual(got.out, spec + "\n", (policy, axes))
            self.assertEqual("warning[" in got.err, policy != "error", axes)
        # As the reference corrects: a repeated axis stays wrong under drop.
        for policy in ("error", "drop"):
            wrong = resolve("[HEAD, VOCAB]", "--shape", "8,8", "--illegal",
                            policy, rc=1)
            self.assertIn("= help: `--illegal shrink` makes it legal\n",
                          wrong.err)
        self.assertEqual(
            resolve(*vocab, "--illegal", "drop", "--format", "json").json(),
            {"axes": ["VOCAB", "FSDP"], "mode": "train",
             "spec": [None, "fsdp"], "corrections": [
                 {"dim": 0, "from": "tp", "to": None,
                  "reason": "indivisible"}]})
        # The surplus entries are one finding, at the first of them.
        for policy, level in (("error", 1), ("drop", 0)):
            got = resolve("[TP, FSDP, null]", "--shape", "4", "--illegal",
                          policy, rc=level)
            self.assertEqual(got.err.count("the spec has 3 entries, the shape "
                                           "1 dimension"), 1)
            self.assertIn("AXES:1:6", got.err)
        # What there is nothing to judge by.
        self.check(run("resolve", "[TP]", "--no-project", "--illegal", "drop"),
                   2)
        resolve("[TP]", "--illegal", "drop", rc=2)
        self.assertEqual(self.check(run(
            "resolve", "[TP]", "--no-project", "--shape", "3"), 0).out,
            '["tp"]\n')

    def test_names_in_a_spec(self):
        result = run("resolve", "[BATCH, [SP, TP], _]", "--axis-names")
        self.assertEqual(self.check(result, 0).out,
                         '["dp", "fsdp", "sp", "tp"]\n')
        result = run("resolve", "Replicated", "--axis-names", "--format", "json")
        self.assertEqual(self.check(result, 0).json()["names"], [])

    def test_resolve_reports_what_is_unknown(self):
        self.check(run("resolve", "[NOPE]"), 2)
        self.check(run("resolve", "[BATCH"), 2)

    def test_attention(self):
        specs = self.check(run("resolve", "attention", "--mode", "decode", "--layout",
                               "bhtd", "--softmax-aux-rank", 2, "--format",
                               "json"), 0).json()
        self.assertEqual(specs["query"], [["fsdp", "dp"], "tp", "sp", None])
        self.assertEqual(specs["softmax_aux"], [None, "tp"])
        self.check(run("resolve", "attention", "--layout", "tdh"), 2)

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
