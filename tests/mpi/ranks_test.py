"""`verify` under mpirun prints what one process prints: verdicts, errors and bytes
of the JSON report, byte for byte; and what MPI moved is what the ledger has."""

import filecmp
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

BIN = os.environ["SHARDC_BIN"]
MPIRUN = os.environ["SHARDC_MPIRUN"]
SIZES = ("--attention", "heads=32,kv_heads=8,head_dim=128", "--batch", "4",
         "--seq", "128", "--kv-len", "4096")
# Root may not start MPI, nor more ranks than there are processors, unasked.
ENV = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1",
           OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
           OMPI_MCA_mpi_yield_when_idle="1", OMPI_MCA_btl="self,vader,tcp")


def launch(ranks, *args):
    return [MPIRUN, "--oversubscribe", "-n", str(ranks), BIN, *args]


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, env=ENV,
                          timeout=500, check=False)
    return done.returncode, done.stdout, done.stderr


def has_slurm():
    """Whether a cluster of Slurm answers, whose MPI is ours."""
    if shutil.which("srun") is None:
        return False
    try:
        done = subprocess.run(["srun", "--mpi=pmix", "-n", "2", "true"],
                              capture_output=True, timeout=30, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def verify(*args):
    return ("verify", "--no-project", "--format", "json", *args)


def verify_step(*args):
    return ("verify", "step", "--no-project", "--format", "json", *args)


# Each: what it is, and the arguments.
SAME = [
    ("the matrix", 4, ["--mesh", "dp:2,sp:2,tp:2", *SIZES,
                       "--dtype", "float32"]),
    ("16 bits", 2, ["--mesh", "dp:2,tp:4", *SIZES,
                    "--dtype", "bfloat16,float16", "--layout", "bhtd",
                    "--mode", "prefill,decode"]),
    ("int8 caches", 4, ["--mesh", "dp:2,tp:2", *SIZES,
                        "--kv-dtype", "int8", "--dtype", "float32"]),
    ("packed tokens", 3, ["--mesh", "dp:2,sp:3", "--attention",
    "heads=12,kv_heads=6,head_dim=64", "--batch", "4", "--seq", "96",
    "--kv-len", "96", "--layout", "thd",
                          "--dtype", "float32"]),
    ("features", 2, ["--mesh", "sp:2,tp:2", *SIZES,
                     "--features", "bias,mask,segments,sinks,window",
                     "--mode", "prefill", "--layout", "bthd",
                     "--operation", "vanilla,flash_attn2,ring",
                     "--dtype", "float32"]),
    ("a ring in zig-zag", 4, ["--mesh", "sp:4", *SIZES,
                              "--operation", "ring,ulysses", "--ring-order",
                              "zig_zag", "--dtype", "float32"]),
    ("quantised products", 2, ["--mesh", "tp:2", *SIZES,
                               "--operation", "vanilla,flash_attn2",
                               "--dot-bits", "8", "--dtype", "float32"]),
    ("dropout", 2, ["--mesh", "dp:2,tp:2", *SIZES,
                    "--operation", "flash_attn2,flash_decoding",
                    "--dropout", "0.1", "--dtype", "float32"]),
    ("full sizes", 4, ["--mesh", "sp:2,tp:2", "--attention",
    "heads=8,kv_heads=4,head_dim=64", "--batch", "2", "--seq", "128",
    "--kv-len", "256", "--full", "--dtype", "float32",
                       "--operation", "ring,flash_attn2,flash_decoding,"
                       "ragged_page_attention_v3"]),
    ("heads that do not divide", 4, ["--mesh", "tp:4", "--attention",
    "heads=28,kv_heads=2,head_dim=64", "--batch", "2", "--seq", "16",
    "--kv-len", "16",
                                     "--dtype", "float32"]),
]
LLAMA = ["--rules", "builtin:llama", "--manifest",
         "testdata/models/llama-3-8b.hf.manifest.json", "--model",
         "testdata/configs/llama-3-8b.config.json"]
# Steps, which run at reduced sizes in seconds.
STEPS = [
    ("a training step", 4, [*LLAMA, "--mesh", "dp:2,fsdp:2,tp:2",
                            "--mode", "train"]),
    ("16 bits", 3, [*LLAMA, "--mesh", "dp:3,tp:2", "--mode", "train,prefill",
                    "--dtype", "float32,bfloat16", "--batch", "6"]),
    ("decoding", 4, [*LLAMA, "--mesh", "dp:2,tp:4", "--mode", "decode"]),
    ("a ring", 4, [*LLAMA, "--mesh", "sp:4,tp:2", "--mode", "train",
                   "--operation", "ring"]),
    ("micro-batches", 2, [*LLAMA, "--mesh", "dp:2,fsdp:4", "--mode", "train",
                          "--microbatches", "2", "--remat", "nothing_saveable"]),
]
# Rules that are wrong: they fail in the same way, with the axis at fault.
WRONG = """\
version: 1
axes:
  batch: dp
  head: tp
  kv_head: null
"""


class SameReport(unittest.TestCase):
    def compare(self, ranks, args, command=verify):
        alone = run([BIN, *command(*args)])
        code, out, err = run(launch(ranks, *command(*args)))
        self.assertEqual(out, alone[1], err)
        self.assertEqual(code, alone[0], err)
        return code, out, err

    def test_settings(self):
        moved = 0
        for name, ranks, args in SAME:
            with self.subTest(name):
                _, out, err = self.compare(ranks, args)
                self.assertIn('"status": "pass"', out)
                moved += self.moved(err)
        self.assertGreater(moved, 0)

    def moved(self, err):
        """Bytes between devices, which must be the ledger's."""
        found = re.search(r"ranks exchanged (\d+) bytes between devices, the "
                          r"ledger records (\d+); (\d+) of them", err)
        self.assertTrue(found, err)
        handed, recorded, crossed = map(int, found.groups())
        self.assertEqual(handed, recorded)
        self.assertLessEqual(crossed, handed)
        return crossed

    def test_steps(self):
        for name, ranks, args in STEPS:
            with self.subTest(name):
                _, out, err = self.compare(ranks, args, verify_step)
                self.assertIn('"status": "pass"', out)
                self.assertGreater(self.moved(err), 0)

    def test_dumps_of_steps(self):
        folder = os.path.join(os.environ["SHARDC_BUILD_ROOT"], "tests")
        alone, spread = (os.path.join(folder, name)
                         for name in ("mpi_step_alone", "mpi_step_spread"))
        for made in (alone, spread):
            shutil.rmtree(made, ignore_errors=True)
        args = verify_step(*STEPS[0][2], "--part", "layer 0")
        self.assertEqual(run([BIN, *args, "--dump", alone])[0], 0)
        code, _, err = run(launch(2, *args, "--dump", spread))
        self.assertEqual(code, 0, err)
        self.assertEqual(filecmp.cmpfiles(alone, spread, os.listdir(alone),
                                          shallow=False),
                         (os.listdir(alone), [], []))

    @unittest.skipUnless(has_slurm(), "no Slurm answers")
    def test_srun(self):
        alone = run([BIN, *verify(*SAME[1][2])])
        code, out, err = run(["srun", "--mpi=pmix", "-n", "2", BIN,
                              *verify(*SAME[1][2])])
        self.assertEqual((code, out), alone[:2], err)
        self.assertGreater(self.moved(err), 0)

    def test_one_rank_is_one_process(self):
        _, _, err = self.compare(1, SAME[1][2])
        self.assertNotIn("ranks exchanged", err)

    def test_a_device_a_rank_sends_all_by_mpi(self):
        _, _, err = self.compare(4, SAME[5][2])
        found = re.search(r"ledger records (\d+); (\d+) of them", err)
        self.assertEqual(found[1], found[2])

    def test_the_same_errors_are_found(self):
        folder = os.path.join(os.environ["SHARDC_BUILD_ROOT"], "tests")
        rules = os.path.join(folder, "mpi_wrong_rules.yaml")
        with open(rules, "w", encoding="utf-8") as file:
            file.write(WRONG)
        code, out, _ = self.compare(
            2, ["--mesh", "dp:2,tp:2", "--rules", rules, *SIZES,
                "--operation", "flash_attn2,sdpa", "--dtype", "float32"])
        self.assertEqual(code, 1)
        self.assertIn('"status": "fail"', out)


class Refusals(unittest.TestCase):
    def one_line(self, ranks, args, text, code=2):
        got, out, err = run(launch(ranks, *args))
        self.assertEqual(got, code, err)
        self.assertEqual(out, "")
        self.assertEqual(err.count(text), 1, err)
        self.assertEqual(err.count("error"), 1, err)

    def test_more_ranks_than_devices(self):
        self.one_line(4, verify("--mesh", "tp:2", *SIZES),
                      "4 processes for 2 devices")

    def test_a_step_on_fewer_devices_than_ranks(self):
        self.one_line(4, verify_step(*LLAMA, "--mesh", "tp:2"),
                      "4 processes for 2 devices, which the proof needs")

    def test_an_input_that_is_not_there(self):
        self.one_line(2, verify("--mesh", "tp:2", "--rules", "none.yaml"),
                      "there is no file")

    def test_list_is_printed_once(self):
        code, out, _ = run(launch(3, "verify", "--list"))
        self.assertEqual(code, 0)
        self.assertEqual(out, run([BIN, "verify", "--list"])[1])


class DeadRank(unittest.TestCase):
    def test_the_run_ends(self):
        command = launch(2, *verify(
            "--mesh", "dp:2,tp:2", "--attention",
            "heads=32,kv_heads=8,head_dim=128", "--batch", "8", "--seq", "1",
            "--kv-len", "8192",
            "--full", "--mode", "decode"))
        process = subprocess.Popen(command, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=ENV)
        try:
            killed = self.kill_second(process.pid)
            out, err = process.communicate(timeout=120)
        finally:
            process.kill()
        self.assertTrue(killed)
        self.assertNotEqual(process.returncode, 0)
        self.assertEqual(out, "")
        self.assertIn("rank 1", err)

    @staticmethod
    def kill_second(launcher):
        """Kills rank 1 of those that `launcher` started, once it runs."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            time.sleep(0.2)
            children = subprocess.run(
                ["ps", "-o", "pid=", "--ppid", str(launcher)],
                capture_output=True, text=True, check=False).stdout.split()
            for pid in children:
                try:
                    with open(f"/proc/{pid}/environ", "rb") as file:
                        if b"OMPI_COMM_WORLD_RANK=1\0" not in file.read():
                            continue
                except OSError:
                    continue
                time.sleep(1)
                os.kill(int(pid), signal.SIGKILL)
                return True
        return False


if __name__ == "__main__":
    unittest.main()
