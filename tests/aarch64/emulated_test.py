"""The program for 64-bit Arm does, to the byte, what the one for this machine
does, and the tests of its vectors pass at every size of a vector.

Usage: emulated_test.py BUILD AARCH64-BUILD, as `tests/bootstrap aarch64` calls
it. The environment's SHARDC_ROOMS names the rooms whose tests were built, and
SHARDC_EVERY of how many recorded texts one is compared.
"""

import filecmp
import json
import os
import stat
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
ARM_ROOT = os.path.join(ROOT, "build-aarch64-root", "root")
MODELS = os.path.join(ROOT, "testdata", "models")
ROOMS = os.environ.get("SHARDC_ROOMS", "checkpoint exec floats source stored").split()
# Processors: NEON alone, then vectors of SVE from the smallest to the largest.
PROCESSORS = ["max,sve=off", "max,sve-max-vq=1", "max,sve-max-vq=2",
              "max,sve-max-vq=4", "max,sve-max-vq=16", "cortex-a72"]
# The sources of a room's tests that use vectors, where all of them take long.
VECTORS = {"stored": "*checksum*", "exec": "*exec/kernels*"}
# One call of a function for every float is too slow in an emulator.
SLOW = "exp is as exact as stated*"
# Model, mesh and rules of the plans that are compared.
TARGETS = [
    ("llama-3-8b.hf.manifest.json", "dp:2,fsdp:8,tp:4", "llama"),
    ("llama-3-70b.flax.manifest.json.gz", "fsdp:16,tp:8", "llama"),
    ("llama-3.1-405b.hf.manifest.json.gz", "dp:4,fsdp:32,tp:8", "llama"),
    ("mixtral-8x7b.hf.manifest.json.gz", "fsdp:4,ep:4,tp:2", "mixtral"),
    ("mixtral-8x22b.flax.manifest.json.gz", "fsdp:8,tp:8", "mixtral"),
    ("gemma-2-27b.hf.manifest.json.gz", "fsdp:8,tp:4", "gemma"),
    ("gemma-3-1b.flax.manifest.json.gz", "fsdp:2,tp:3", "gemma"),
    ("gpt2-xl.hf.manifest.json.gz", "dp:3,tp:5", "gpt2"),
    ("qwen2-0.5b.hf.manifest.json.gz", "fsdp:4,tp:7", "qwen"),
    ("qwen3-32b.hf.manifest.json.gz", "fsdp:16,tp:16", "qwen"),
    ("real-medgemma-27b-it.hf.manifest.json.gz", "fsdp:8,tp:2", "gemma"),
    ("mistral-7b.flax.manifest.json.gz", "dp:2,fsdp:3,sp:2,tp:2", "llama"),
]
# Operations whose verdicts are compared.
VERIFIED = [["--mesh", "tp:2", "--operation", "sdpa"],
            ["--mesh", "sp:4", "--operation", "ring"],
            ["--mesh", "fsdp:2,tp:2", "--dtype", "float32,bfloat16"]]
SIZES = ["--attention", "heads=8,kv_heads=2,head_dim=16", "--batch", "4",
         "--seq", "32", "--kv-len", "32", "--no-project", "--format", "json"]
# Measured numbers: sums of other orders round otherwise.
MEASURED = {"max_abs_error", "tolerance", "unsharded_error", "relative_l2",
            "worst", "steps", "devices"}


def emulated(processor=PROCESSORS[-2]):
    return ["qemu-aarch64-static", "-cpu", processor, "-L", ARM_ROOT]


def run(command, folder=ROOT, **env):
    return subprocess.run(command, cwd=folder, capture_output=True, text=True,
                          env=dict(os.environ, **env), check=False)


class Emulated(unittest.TestCase):
    maxDiff = None

    def test_the_program_needs_no_other_file(self):
        program = os.path.join(EMULATED, "src", "cli", "shardc")
        read = run(["aarch64-linux-gnu-readelf", "-dlW", program]).stdout
        self.assertNotIn("NEEDED", read)
        self.assertNotIn("INTERP", read)

    def test_plans_checks_and_reports_are_the_same_bytes(self):
        programs = [[os.path.join(BUILD, "src", "cli", "shardc")],
                    [*emulated(),
                     os.path.join(EMULATED, "src", "cli", "shardc")]]
        plans = 0
        for manifest, mesh, pack in TARGETS:
            inputs = ["--mesh", mesh, "--rules", "builtin:" + pack,
                      "--manifest", os.path.join(MODELS, manifest)]
            with self.subTest(manifest), tempfile.TemporaryDirectory() as made:
                results = []
                for number, program in enumerate(programs):
                    folder = os.path.join(made, str(number))
                    os.mkdir(folder)
                    results.append([
                        (done.returncode, done.stdout, done.stderr)
                        for done in (
                            run([*program, *command, *inputs], folder)
                            for command in (
                                ["plan", "-o", "plan.json"], ["check"],
                                ["check", "--format", "json"],
                                ["report", "-o", "report.html"]))])
                self.assertEqual(results[0], results[1])
                self.assertIn(results[0][0][0], (0, 1))
                # A plan that has errors is not written.
                here, there = (os.path.join(made, str(number))
                               for number in (0, 1))
                names = os.listdir(here)
                self.assertEqual(filecmp.cmpfiles(here, there, names, False),
                                 (names, [], []))
                self.assertEqual(sorted(os.listdir(there)), sorted(names))
                plans += "plan.json" in names
        self.assertGreater(plans, len(TARGETS) // 2)

    def test_recorded_texts_are_printed(self):
        with tempfile.TemporaryDirectory() as folder:
            # The programs that the tests start run on this machine.
            wrapper = os.path.join(folder, "shardc")
            with open(wrapper, "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\nexec {' '.join(emulated())} "
                           f"{EMULATED}/src/cli/shardc \"$@\"\n")
            os.chmod(wrapper, stat.S_IRWXU)
            done = run([sys.executable, "tests/cli/golden_test.py"],
                       SHARDC_BIN=wrapper, SHARDC_SOURCE_ROOT=ROOT,
                       SHARDC_BUILD_ROOT=BUILD,
                       SHARDC_EVERY=os.environ.get("SHARDC_EVERY", "8"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_verdicts_are_the_same(self):
        program = os.path.join("src", "cli", "shardc")
        for arguments in VERIFIED:
            command = ["verify", *arguments, *SIZES]
            here = run([os.path.join(BUILD, program), *command])
            for processor in PROCESSORS:
                with self.subTest(arguments, processor=processor):
                    there = run([*emulated(processor),
                                 os.path.join(EMULATED, program), *command])
                    self.assertEqual(verdicts(here), verdicts(there))

    def test_rooms(self):
        for room in ROOMS:
            program = os.path.join(EMULATED, "tests", room + "_test")
            for processor in PROCESSORS:
                chosen = ["-sf=" + VECTORS[room]] if room in VECTORS else []
                with self.subTest(room, processor=processor):
                    done = run([*emulated(processor), program, *chosen,
                                "-tce=" + SLOW],
                               SHARDC_SOURCE_ROOT=ROOT,
                               SHARDC_BIN=os.path.join(BUILD, "src", "cli",
                                                       "shardc"))
                    self.assertEqual(done.returncode, 0,
                                     done.stdout[-4000:] + done.stderr)
                    self.assertNotIn("test cases:    0 ", done.stdout)


def verdicts(done):
    """The status and all of the report that is not measured."""
    report = json.loads(done.stdout)
    for case in report["cases"]:
        for name in MEASURED:
            case.pop(name, None)
    return done.returncode, report, done.stderr


if __name__ == "__main__":
    BUILD, EMULATED = map(os.path.abspath, sys.argv[1:3])
    del sys.argv[1:3]
    unittest.main()
