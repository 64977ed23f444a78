"""`shardc check --fix` and `--diff`: what is mended and what is not."""

import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import time
import unittest

from check_case import RULES, Folder
from driver import BIN, run


class Fixes(Folder):
    MENDED = """\
version: 1
# what the team agreed on
rules:
  - match: 'wide/kernel'   # wide
    spec: ColumnWise

  - match: 'narrow/kernel'
    spec: RowWise
    note: "narrow"
  - match: 'w_qkv/kernel'
    spec: ColumnWise
  - match: '.*'          # the rest
    spec: [[FSDP, SP]]
"""

    # The catch-all below takes what it took above.
    SAFE = RULES.replace("    spec: RowWise", "    spec: [[FSDP, SP]]")
    SAFE_MENDED = MENDED.replace("    spec: RowWise", "    spec: [[FSDP, SP]]")

    def specs(self):
        plan = self.shardc("plan", "--no-project", "--mesh", "fsdp:2,tp:4",
                           "--rules", "r.yaml", "--manifest", "m.json", "-q",
                           "--unmatched", "replicate")
        return {name: (param["spec"], param.get("modes"))
                for name, param in self.check(plan, 0).json()["params"]
                .items()}

    def test_fix_keeps_comments_and_formatting(self):
        self.write("r.yaml", self.SAFE)
        result = self.lint("--fix", "--format", "json")
        self.check(result, 0)
        self.assertIn("2 findings fixed", result.err)
        self.assertEqual(self.read("r.yaml"), self.SAFE_MENDED)
        self.assertEqual([f["code"] for f in result.json()], ["SHD105"])
        self.lint("--fix")  # nothing is left to fix
        self.assertEqual(self.read("r.yaml"), self.SAFE_MENDED)

    def test_a_moved_rule_has_the_line_breaks_of_the_file(self):
        rule = "- match: '.*'\r\n  spec: [[FSDP, SP]]"
        last = "- match: 'narrow'\r\n  spec: [[FSDP, SP]]"
        head = "version: 1\r\nrules:\r\n"
        with open(self.path("r.yaml"), "w", newline="") as file:
            file.write(head + rule + "\r\n" + last)
        self.check(self.lint("--fix"), 0)
        with open(self.path("r.yaml"), newline="") as file:
            self.assertEqual(file.read(),
                             head + last + "\r\n" + rule + "\r\n")

    def test_a_compressed_file_is_not_fixed(self):
        packed = gzip.compress(self.SAFE.encode())
        with open(self.path("r.yaml"), "wb") as file:
            file.write(packed)
        for flag in ("--fix", "--unsafe-fixes"):
            result = self.check(self.lint(flag), 2)
            self.assertIn("`r.yaml` is compressed with gzip, so it is not "
                          "fixed", result.err)
            self.assertNotIn("findings fixed", result.err)
            with open(self.path("r.yaml"), "rb") as file:
                self.assertEqual(file.read(), packed)
        shown = self.check(self.lint("--fix", "--diff"), 1).out
        self.assertIn("--- ", shown)
        # Without anything to fix, the form of the file does not matter.
        with open(self.path("r.yaml"), "wb") as file:
            file.write(gzip.compress(self.SAFE_MENDED.encode()))
        self.check(self.lint("--fix"), 0)

    def test_a_fix_that_changes_a_spec_needs_its_flag(self):
        before = self.specs()
        result = self.check(self.lint("--fix", "--format", "json"), 1)
        self.assertIn("1 fix not applied, because specs would change: add "
                      "`--unsafe-fixes`", result.err)
        self.assertEqual([f["code"] for f in result.json()],
                         ["SHD109", "SHD105"])
        self.assertEqual(self.specs(), before)
        self.assertNotIn("note: \"narrow\"\n  - match: '.*'",
                         self.read("r.yaml"))
        result = self.check(self.lint("--unsafe-fixes"), 0)
        self.assertEqual(self.read("r.yaml"), self.MENDED)
        self.assertIn("the plan changes:\n"
                      "  the spec of `layers/0/narrow/kernel` was [\"fsdp\"] "
                      "and is [\"tp\", \"fsdp\"]", result.err)
        self.assertNotEqual(self.specs(), before)

    def test_what_is_proven_for_all_names_is_reported(self):
        """A duplicate is of no use to any tree; a catch-all that moves
        behind a rule that finds nothing here keeps the specs of this one."""
        duplicate = ("version: 1\nrules:\n"
                     "  - match: 'q_proj/kernel$'\n    spec: ColumnWise\n"
                     "  - match: '.*'\n    spec: []\n")
        proven = "no possible name gets another spec"
        self.write("r.yaml", duplicate.replace(
            "  - match: '.*'", "  - match: 'q_proj/kernel$'\n"
            "    spec: ColumnWise\n  - match: '.*'"))
        self.assertIn(proven, self.lint("--fix").err)
        self.assertEqual(self.read("r.yaml"), duplicate)
        self.write("r.yaml", duplicate + "  - match: 'absent$'\n"
                   "    spec: ColumnWise\n")
        result = self.lint("--fix")
        self.assertIn("1 finding fixed\n", result.err)
        self.assertNotIn(proven, result.err)

    def test_a_dot_that_stands_for_itself_is_proven_too(self):
        """As the separator of Hugging Face's names is written."""
        self.write("m.json", json.dumps({
            "schema": "shardc.manifest/v1", "params": {
                "layers.0.q_proj.weight": {"shape": [64, 64],
                                           "dtype": "BF16"}}}))
        rule = "  - match: 'q_proj\\.weight$'\n    spec: ColumnWise\n"
        self.write("r.yaml", "version: 1\nrules:\n" + 2 * rule +
                   "  - match: '.*'\n    spec: []\n")
        self.assertIn("no possible name gets another spec", self.lint("--fix").err)

    def test_what_a_fix_makes_fixable_is_fixed_in_the_same_run(self):
        """Two patterns are equal once the dot of one of them is escaped."""
        self.write("m.json", json.dumps({
            "schema": "shardc.manifest/v1", "separator": ".", "params": {
                "layers.0.q_proj.weight": {"shape": [64, 64],
                                           "dtype": "BF16"}}}))
        rule = "  - match: 'q_proj{}weight$'\n    spec: ColumnWise\n"
        head = 'version: 1\nseparator: "."\nrules:\n'
        before = head + rule.format("\\.") + rule.format(".")
        after = head + rule.format("\\.")
        self.write("r.yaml", before)
        shown = self.lint("--diff").out
        result = self.lint("--fix")
        self.assertEqual(self.read("r.yaml"), after)
        self.assertIn("2 findings fixed\n", result.err)
        self.assertEqual(shown.count("\n--- "), 0, shown)
        self.assertIn("-  - match: 'q_proj.weight$'", shown)
        self.assertNotIn("+", shown.split("@@")[-1])

    def test_a_fix_is_proven_in_every_mode(self):
        self.write("r.yaml", self.SAFE.replace(
            '    note: "narrow"', "    modes: {decode: [null, null]}"))
        before = self.read("r.yaml")
        self.lint("--fix", "--ignore", "SHD107", "--modes", "train")
        self.assertEqual(self.read("r.yaml"), before)

    def test_a_fix_is_proven_for_every_target(self):
        """Also of those that are not checked, if they read the file."""
        self.write("other.json", json.dumps({
            "schema": "shardc.manifest/v1", "params": {
                "layers/0/w_qkv/kernel": {"shape": [64, 64],
                                          "dtype": "BF16"}}}))
        self.write("shardc.yaml", """\
version: 1
targets:
  a: {mesh: "fsdp:2,tp:4", rules: [r.yaml], manifest: m.json}
  b: {mesh: "fsdp:2,tp:4", rules: [base.yaml], manifest: other.json}
""")
        self.write("base.yaml", "version: 1\nextends: [./r.yaml]\n")
        self.write("r.yaml", self.SAFE)
        args = ("check", "--fix", "--ignore", "SHD107")
        for more in ((), ("--target", "a")):
            self.shardc(*args, *more)
            self.assertEqual(self.read("r.yaml"), self.SAFE, more)
        self.write("other.json", json.dumps({
            "schema": "shardc.manifest/v1", "params": {
                "x/kernel": {"shape": [64, 64], "dtype": "BF16"}}}))
        self.shardc(*args)
        self.assertIn("  - match: '.*'          # the rest\n"
                      "    spec: [[FSDP, SP]]\n", self.read("r.yaml")[-70:])

    def test_comments_go_with_their_rule(self):
        self.write("r.yaml", """\
version: 1
rules:
  # of wide ones
  - match: 'wide/kernel'
    spec: ColumnWise
    # goes on about wide

  # a second time,
  # by mistake
  - match: 'wide/kernel'
    spec: ColumnWise
      # to be looked at
  # the rest
  # shardc: ignore[SHD103] on purpose

  - match: '.*'
    spec: [[FSDP, SP]]

  # narrow ones
  - match: 'narrow/kernel'
    spec: [[FSDP, SP]]
    # and their end
# not of any rule
""")
        self.check(self.lint("--fix"), 0)
        self.assertEqual(self.read("r.yaml"), """\
version: 1
rules:
  # of wide ones
  - match: 'wide/kernel'
    spec: ColumnWise
    # goes on about wide


  # narrow ones
  - match: 'narrow/kernel'
    spec: [[FSDP, SP]]
    # and their end
  # the rest
  # shardc: ignore[SHD103] on purpose

  - match: '.*'
    spec: [[FSDP, SP]]
# not of any rule
""")

    def test_diff_shows_it_and_writes_nothing(self):
        self.write("r.yaml", self.SAFE)
        result = self.check(self.lint("--diff"), 1)
        self.assertEqual(self.read("r.yaml"), self.SAFE)
        removed = [line for line in result.out.split("\n")
                   if line.startswith("-") and not line.startswith("---")]
        added = [line for line in result.out.split("\n")
                 if line.startswith("+") and not line.startswith("+++")]
        self.assertEqual(removed, ["-  - match: 'wide/kernel'",
                                   "-    spec: ColumnWise",
                                   "-  - match: '.*'          # the rest",
                                   "-    spec: [[FSDP, SP]]"])
        self.assertEqual(added, ["+  - match: '.*'          # the rest",
                                 "+    spec: [[FSDP, SP]]"])
        self.write("r.yaml", self.SAFE_MENDED)
        self.assertEqual(self.check(self.lint("--diff"), 0).out, "")
        self.write("r.yaml", RULES)
        self.assertNotIn("+    spec", self.lint("--diff").out)
        self.assertIn("+    spec", self.lint("--diff", "--unsafe-fixes").out)
        self.assertEqual(self.read("r.yaml"), RULES)

    def test_the_diff_applies(self):
        self.write("r.yaml", self.SAFE)
        self.write("p.diff", self.lint("--diff").out)
        done = subprocess.run(["patch", "-s", "-p0", "-i", "p.diff"],
                              cwd=self.folder.name, capture_output=True)
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual(self.read("r.yaml"), self.SAFE_MENDED)

    def test_patterns_are_escaped_and_anchored_in_their_own_quotes(self):
        self.write("m.json", json.dumps({
            "schema": "shardc.manifest/v1", "params": {
                "mlp.up.weight": {"shape": [64, 64], "dtype": "I8"},
                "mlp.up.weight_scale": {"shape": [1, 64], "dtype": "F32"},
                "mlp.down.weight": {"shape": [64, 64], "dtype": "I8"},
                "mlp.gate.weight": {"shape": [64, 64], "dtype": "I8"}}}))
        self.write("r.yaml", """\
version: 1
separator: "."
rules:
  - match: mlp.up.weight   # plain
    spec: []
  - match: "mlp.down\\\\.weight"
    spec: []
  - {match: 'mlp.gate.weight', spec: []}
  - match: '.'
    spec: []
""")
        self.lint("--fix")
        self.assertEqual(self.read("r.yaml"), """\
version: 1
separator: "."
rules:
  - match: mlp\\.up\\.weight$   # plain
    spec: []
  - match: "mlp\\\\.down\\\\.weight"
    spec: []
  - {match: 'mlp\\.gate\\.weight', spec: []}
  - match: '.'
    spec: []
""")

    def test_ignored_and_deselected_findings_are_not_mended(self):
        kept = RULES.replace("  - match: '.*' ",
                             "  # shardc: ignore[SHD109] on purpose\n"
                             "  - match: '.*' ")
        self.write("r.yaml", kept)
        self.lint("--fix", "--ignore", "SHD107")
        self.assertEqual(self.read("r.yaml"), kept)

    def test_flow_style_rules_are_left_alone(self):
        text = ("version: 1\nrules: [{match: '.*', spec: []},"
                " {match: 'up', spec: []}]\n")
        self.write("r.yaml", text)
        self.check(self.lint("--fix"), 1)
        self.assertEqual(self.read("r.yaml"), text)


class Separators(Folder):
    """A file without `separator` shows it by its patterns."""

    TORCH = {f"layers.{i}.attn.{n}.weight": {"shape": [512, 512],
                                             "dtype": "BF16"}
             for i in range(3) for n in ("wq", "wo")}

    def torch(self, rules, **params):
        self.write("m.json", json.dumps({
            "schema": "shardc.manifest/v1",
            "params": {**self.TORCH, **params}}))
        self.write("r.yaml", "version: 1\n" + rules)

    def plan(self, *args):
        return self.shardc("plan", "--no-project", "--mesh", "tp:4",
                           "--rules", "r.yaml", "--manifest", "m.json", *args)

    DOTS = ("rules:\n  - match: 'attn\\.wq\\.weight'\n    spec: [TP, null]\n"
            "  - match: 'attn\\.wo\\.weight'\n    spec: [null, TP]\n")

    def test_escaped_dots_and_slashes_give_the_separator(self):
        for rules, taken in ((self.DOTS, "."),
                             (self.DOTS.replace("\\.", "/"), "/"),
                             (self.DOTS.replace("attn\\.", "attn[/.]"), ".")):
            self.torch(rules)
            result = self.check(self.plan(), 0)
            for spec in (["tp", None], [None, "tp"]):
                self.assertIn(spec, [p["spec"] for p in
                                     result.json()["params"].values()])
            self.assertIn(f"separator   `{taken}` for r.yaml, inferred from "
                          "its patterns", result.err)
            result = self.shardc(
                "explain", "layers.0.attn.wq.weight", "--no-project",
                "--mesh", "tp:4", "--rules", "r.yaml", "--manifest", "m.json")
            self.assertIn(f"separator `{taken}` for r.yaml", result.out)

    def test_neither_takes_that_of_the_names(self):
        # [^.] keeps to one part only if names keep their dots.
        self.torch("rules:\n  - match: 'layers[^.]+'\n    spec: [TP]\n"
                   "  - match: '.'\n    spec: [null, TP]\n")
        result = self.check(self.plan(), 0)
        self.assertEqual({tuple(p["spec"]) for p in
                          result.json()["params"].values()}, {(None, "tp")})
        self.assertIn("separator   `.` for r.yaml, inferred from the names",
                      result.err)

    def test_both_are_an_error_except_under_compat(self):
        self.torch(self.DOTS + "  - match: 'a/b'\n    spec: []\n")
        result = self.check(self.plan(), 2)
        self.assertIn("error[SHD041 separator]", result.err)
        self.assertIn('`separator: "."`', result.err)
        self.check(self.shardc("show", "rules", "--rules", "r.yaml"), 2)
        # Then no pattern matches, and the whole model is replicated.
        self.assertNotIn("SHD041", self.check(self.plan(
            "--compat", "eformer", "--unmatched", "replicate"), 1).err)
        # In a class it is no separator.
        self.torch(self.DOTS + "  - match: 'a[x/]b'\n    spec: []\n")
        self.check(self.plan(), 0)

    def test_one_that_is_written_stays_silent(self):
        self.torch('separator: "."\n' + self.DOTS)
        self.assertNotIn("separator", self.check(self.plan(), 0).err)

    def test_a_wrong_separator_is_the_one_finding(self):
        wrong = 'separator: "/"\n' + self.DOTS
        self.torch(wrong)
        self.assertEqual(self.codes(rc=1), ["SHD113"])
        self.assertIn("SHD102", self.codes("--ignore", "SHD113", rc=1))
        result = self.check(self.plan(), 1)
        self.assertEqual(result.err.count("error["), 1)
        self.assertIn("error[SHD113", result.err)
        self.torch(wrong + "policy: {unmatched: replicate}\n")
        result = self.check(self.plan(), 1)
        self.assertIn("error[SHD113", result.err)
        self.assertNotIn("SHD102", result.err)
        result = self.shardc(
            "explain", "layers.0.attn.wq.weight", "--no-project", "--mesh",
            "tp:4", "--rules", "r.yaml", "--manifest", "m.json")
        self.assertIn("SHD113", result.err)



class KilledFixes(Folder):
    """Runs of --fix that are killed next to other runs of it. SHARDC_FIX_KILLS is the
    number of kills."""

    def setUp(self):
        super().setUp()
        self.write("r.yaml", Fixes.SAFE)

    def start(self, *before):
        return subprocess.Popen(
            [*before, BIN, "check", "--no-project", "--mesh", "fsdp:2,tp:4", "--rules",
             "r.yaml", "--manifest", "m.json", "--fix"], cwd=self.folder.name,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def next_run_cleans(self):
        # A run that is killed may have made one of its two fixes: a whole file.
        first = "  - match: 'wide/kernel'   # wide\n    spec: ColumnWise\n"
        again = "  - match: 'wide/kernel'\n    spec: ColumnWise\n"
        self.assertIn(self.read("r.yaml"), (
            Fixes.SAFE, Fixes.SAFE_MENDED, Fixes.SAFE.replace(again, ""),
            Fixes.SAFE_MENDED.replace(first, first + again)))
        self.check(self.lint("--fix"), 0)
        self.assertEqual(self.read("r.yaml"), Fixes.SAFE_MENDED)
        self.assertEqual(sorted(os.listdir(self.folder.name)), ["m.json", "r.yaml"])

    @unittest.skipUnless(shutil.which("strace"), "no strace")
    def test_killed_before_the_rename(self):
        """With `other`, another run has fixed the file meanwhile, so that the next one
        has nothing to fix."""
        for other in (False, True):
            with self.subTest(other=other):
                self.write("r.yaml", Fixes.SAFE)
                killed = self.start("strace", "-f", "-o", "/dev/null", "-e",
                                    "inject=rename:signal=KILL").wait()
                if killed not in (-signal.SIGKILL, 128 + signal.SIGKILL):
                    self.skipTest("strace cannot trace here")
                self.assertIn(".r.yaml.new.tmp", os.listdir(self.folder.name))
                self.assertEqual(self.read("r.yaml"), Fixes.SAFE)
                if other:
                    self.write("r.yaml", Fixes.SAFE_MENDED)
                self.next_run_cleans()

    def test_killed_at_any_time(self):
        rng = random.Random(98)
        for _ in range(int(os.environ.get("SHARDC_FIX_KILLS", "20"))):
            self.write("r.yaml", Fixes.SAFE)
            runs = [self.start() for _ in range(3)]
            time.sleep(rng.uniform(0, 0.03))
            for one in runs[:2]:
                one.kill()
            for one in runs:
                one.wait()
            self.next_run_cleans()


if __name__ == "__main__":
    unittest.main()
