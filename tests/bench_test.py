"""The benchmark programs run: each is given one small case.

They are built with -Dbench=true, as the test build is. What they measure is not
compared: the ratios are printed by bench/run.sh.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.environ["SHARDC_SOURCE_ROOT"]
BENCH = os.path.join(os.environ["SHARDC_BUILD_ROOT"], "bench")


def run(program, *args, given=""):
    done = subprocess.run([os.path.join(BENCH, program), *args], input=given,
                          capture_output=True, text=True, timeout=300,
                          check=False)
    if done.returncode != 0:
        raise AssertionError(f"{program}: exit status {done.returncode}: "
                             f"{done.stdout}{done.stderr}")
    return done.stdout


@unittest.skipUnless(os.path.exists(os.path.join(BENCH, "step_worker")),
                     "built without -Dbench=true")
class Bench(unittest.TestCase):
    def test_attention(self):
        cases = ("peak", "prefill 64 causal f32", "prefill 64 full bf16",
                 "decode 8192 f32", "read 8192 f16", "mesh 2 64")
        lines = run("attention_worker",
                    given="\n".join((*cases, "nothing"))).splitlines()
        self.assertEqual(len(lines), len(cases) + 1)
        for case, line in zip(cases, lines):
            with self.subTest(case=case):
                seconds, work = (float(word) for word in line.split())
                self.assertGreater(seconds, 0)
                self.assertGreater(work, 0)
        self.assertTrue(lines[-1].startswith("absent"), lines[-1])

    def test_steps(self):
        config = os.path.join(ROOT, "testdata", "configs",
                              "llama-3-8b.config.json")
        printed = run("step_worker", "program", config, "dp:2,tp:2")
        self.assertRegex(printed, r"ops \d+, instructions [1-9]\d*\n")
        for name in ("graph", "lower", "report"):
            self.assertRegex(printed, rf"(?m)^{name} +[\d.]+ ms, at least ")

    def test_names(self):
        with tempfile.TemporaryDirectory() as folder:
            patterns = os.path.join(folder, "patterns")
            names = os.path.join(folder, "names")
            with open(patterns, "w", encoding="utf-8") as file:
                file.write("q_proj/kernel\nkernel$\n.*\n")
            with open(names, "w", encoding="utf-8") as file:
                file.write("a/q_proj/kernel\na/o_proj/kernel\nnorm/scale\n")
            for engine in ("automaton", "re2"):
                printed = json.loads(
                    run("match_worker", engine, patterns, names, "1"))
                self.assertEqual(printed["first"], [0, 1, 2])

    def test_copies_of_a_checkpoint(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, "-B", os.path.join(ROOT, "bench",
                                                    "checkpoint.py"),
                 os.environ["SHARDC_BIN"], folder, str(4 / 1024)],
                capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("dd / split: wall"), 4, done.stdout)


if __name__ == "__main__":
    unittest.main()
