"""Checkpoints cut while things go wrong: killed runs, full disks, a source
that shrinks, several processes of which one dies."""

import hashlib
import json
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import time
import unittest

from checkpoint_case import (Base, BIN, clean_env, write_safetensors)


class Failures(Base):
    """Killed, out of space, not allowed, the source cut under the reader."""

    def make(self, megabytes):
        rows = megabytes * 1024
        data = random.Random(2).randbytes(1 << 20) * megabytes
        write_safetensors(self.path("m.safetensors"), {
            "w": ("U8", [rows, 1024], data), "n": ("U8", [3], b"abc")})
        return self.write_plan("plan.json", [("dp", 2), ("tp", 4)], {
            "w": ([rows, 1024], [None, "tp"]), "n": ([3], [])})

    def command(self, plan, *args, out="out"):
        return [BIN, "checkpoint", "split", "--plan", plan, "--checkpoint",
                self.path("m.safetensors"), "--output", self.path(out), *args]

    def test_killed_at_any_moment(self):
        plan = self.make(24)
        digest = hashlib.sha256(self.contents()["m.safetensors"]).digest()
        start = time.monotonic()
        self.shardc(*self.command(plan, out="want")[1:])
        whole = time.monotonic() - start
        want = self.contents("want")
        rng = random.Random(11)
        killed = kept = 0
        for moment in range(50):
            # Cycles of interruptions of one set, and of the set before it.
            args = ["--reuse"] if moment % 5 == 4 else []
            run = subprocess.Popen(self.command(plan, *args),
                                   stderr=subprocess.DEVNULL, env=clean_env())
            time.sleep(rng.uniform(0, 1.2 * whole))
            run.send_signal(signal.SIGKILL)
            killed += run.wait() != 0
            if os.path.isdir(self.path("out")):
                for name, data in self.contents("out").items():
                    if name.startswith("."):
                        kept += 1
                        continue
                    if name == "shards.json" and b"unfinished" in data:
                        continue
                    self.assertTrue(data == want[name], name)
                held = self.contents("out")
                if b"unfinished" not in held.get("shards.json",
                                                 b"unfinished"):  # then the whole set is there
                    self.same({name: data for name, data in held.items()
                               if not name.startswith(".")}, want)
            self.assertEqual(hashlib.sha256(
                self.contents()["m.safetensors"]).digest(), digest)
            if moment % 10 == 9:
                self.shardc(*self.command(plan)[1:])
                self.same(self.contents("out"), want)
                if moment % 20 == 9:
                    shutil.rmtree(self.path("out"))
        self.assertGreater(killed, 10)
        self.assertGreater(kept, 0)
        self.shardc(*self.command(plan)[1:])
        self.same(self.contents("out"), want)

    def test_complete_files_are_kept_and_others_are_written_again(self):
        plan = self.make(64)
        for _ in range(40):
            run = subprocess.Popen(self.command(plan, "--threads", "1"),
                                   stderr=subprocess.DEVNULL, env=clean_env())
            journal = self.path("out", ".shards-00000-of-00001.journal")
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline and run.poll() is None:
                if os.path.exists(journal) and any(
                        name.endswith(".part")
                        for name in os.listdir(self.path("out"))):
                    break
            time.sleep(random.Random().uniform(0, 0.03))
            run.kill()
            run.wait()
            if os.path.isdir(self.path("out")) and "shards.json" not in \
                    os.listdir(self.path("out")):
                break
            shutil.rmtree(self.path("out"), True)
        else:
            self.fail("no run could be interrupted")
        # Damage behind the journal's back is found.
        for name in os.listdir(self.path("out")):
            if name.endswith(".part"):
                with open(self.path("out", name), "r+b") as file:
                    file.seek(100000)
                    file.write(b"damage")
        self.shardc(*self.command(plan)[1:])
        self.shardc(*self.command(plan, out="want")[1:])
        self.same(self.contents("out"), self.contents("want"))

    def check_failed(self, run, *words):
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertEqual(run.stderr.count("error"), 1, run.stderr)
        for word in words:
            self.assertIn(word, run.stderr)

    def test_file_size_limit(self):
        plan = self.make(8)

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

        run = subprocess.run(self.command(plan), capture_output=True,
                             text=True, preexec_fn=limit, env=clean_env())
        self.check_failed(run, "cannot write", "device-0000")
        self.assertFalse(os.path.exists(self.path("out")))

    def in_namespace(self, script, *args):
        run = subprocess.run(["unshare", "-rm", "sh", "-c", script, "sh",
                              *args], capture_output=True, text=True,
                             env=clean_env())
        if "unshare" in run.stderr or "mount" in run.stderr:
            self.skipTest("no namespaces to mount in: " + run.stderr.strip())
        return run

    def test_full_disk(self):
        plan = self.make(8)
        os.mkdir(self.path("out"))
        run = self.in_namespace(
            'mount -t tmpfs -o size=5m none "$1" || exit 99; shift; "$@"; '
            's=$?; ls -A "${8}" >&2; exit $s',
            self.path("out"), *self.command(plan))
        self.check_failed(run, "No space left", "free some space")
        self.assertNotIn("journal", run.stderr.split("No space")[1])
        self.assertNotIn(".part", run.stderr)

    def test_read_only_directory(self):
        plan = self.make(1)
        os.mkdir(self.path("out"))
        run = self.in_namespace(
            'mount -t tmpfs -o ro none "$1" || exit 99; shift; "$@"',
            self.path("out"), *self.command(plan))
        self.check_failed(run, "Read-only")

    def test_source_cut_during_the_run(self):
        for gigabytes in (2, 8, 32):
            size = gigabytes << 30
            header = {"w": {"dtype": "U8", "shape": [size >> 10, 1024],
                            "data_offsets": [0, size]}}
            text = json.dumps(header).encode()
            with open(self.path("m.safetensors"), "wb") as out:
                out.write(struct.pack("<Q", len(text)) + text)
                out.truncate(8 + len(text) + size)
            plan = self.write_plan("plan.json", [("tp", 4)], {
                "w": ([size >> 10, 1024], ["tp"])})
            run = subprocess.Popen(self.command(plan), text=True,
                                   stderr=subprocess.PIPE, env=clean_env())
            part = self.path("out", ".device-00000.safetensors.part")
            while run.poll() is None and not os.path.exists(part):
                time.sleep(0.001)
            os.truncate(self.path("m.safetensors"), 1 << 20)
            _, said = run.communicate()
            if run.returncode == 0:  # it was quicker: a larger one
                shutil.rmtree(self.path("out"))
                continue
            self.assertEqual(run.returncode, 2)
            self.assertEqual(said.count("error"), 1, said)
            self.assertIn("m.safetensors", said)
            self.assertFalse(os.path.exists(self.path("out")))
            return
        self.fail("the source could not be truncated in time")


class Processes(Base):
    def make(self):
        rng = random.Random(8)
        tensors = {"w.%d" % i: ("U8", [1024, 512],
                                rng.randbytes(1024 * 512)) for i in range(32)}
        write_safetensors(self.path("m.safetensors"), tensors)
        return self.write_plan("plan.json", [("fsdp", 4), ("tp", 4)], {
            name: ([1024, 512], ["fsdp", "tp"]) for name in tensors})

    def command(self, plan, *args, out="out"):
        return [BIN, "checkpoint", "split", "--plan", plan, "--checkpoint",
                self.path("m.safetensors"), "--output", self.path(out), *args]

    def start(self, plan, index, **kwargs):
        env = {**clean_env(), "SLURM_PROCID": str(index),
               "SLURM_STEP_NUM_TASKS": "4"}
        return subprocess.Popen(self.command(plan), env=env, text=True,
                                stderr=subprocess.PIPE, **kwargs)

    def test_four_processes_one_killed_and_run_again(self):
        plan = self.make()
        self.shardc(*self.command(plan, out="want")[1:])
        runs = [self.start(plan, i) for i in range(4)]
        runs[2].kill()  # before it can be done
        for i, run in enumerate(runs):
            _, said = run.communicate()
            if i != 2:
                self.assertEqual(run.returncode, 0, said)
                self.assertIn("process %d of 4 (SLURM_PROCID)" % i, said)
        self.assertNotIn("shards.json", os.listdir(self.path("out")))
        early = self.shardc(*self.command(plan, "--finalize")[1:], status=2)
        self.assertIn("not complete: 2", early.stderr)
        again = self.start(plan, 2)
        _, said = again.communicate()
        self.assertEqual(again.returncode, 0, said)
        # Any part may be repeated, and finds itself done.
        repeated = self.start(plan, 1)
        _, said = repeated.communicate()
        self.assertEqual(repeated.returncode, 0, said)
        self.assertIn("already written", said)
        self.shardc(*self.command(plan, "--finalize", "--process-count",
                                  "4")[1:])
        self.same(self.contents("out"), self.contents("want"))

    def test_merge_and_reshard_by_processes(self):
        plan = self.make()
        self.shardc(*self.command(plan, out="pieces")[1:])
        merge = ["checkpoint", "merge", self.path("pieces"), "--output", self.path("hf"),
                 "--max-shard-size", "1MB"]
        for i in range(3):
            self.shardc(*merge, "--process-index", str(i), "--process-count",
                        "3")
        self.shardc(*merge, "--finalize")
        self.shardc("checkpoint", "split", "--plan", plan, "--checkpoint", self.path("hf"),
                    "--output", self.path("again"))
        self.same(self.contents("again"), self.contents("pieces"))

    def test_two_runs_do_not_write_the_same(self):
        import fcntl
        plan = self.make()
        os.mkdir(self.path("out"))
        journal = self.path("out", ".shards-00000-of-00001.journal")
        with open(journal, "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            run = self.shardc(*self.command(plan)[1:], status=2)
        self.assertIn("another run", run.stderr)

    def test_flags_that_do_not_fit(self):
        plan = self.make()
        for args in (["--process-index", "1"], ["--process-count", "2"],
                     ["--process-index", "2", "--process-count", "2"],
                     ["--cast", "int8"], ["--params", "("],
                     ["--per", "host"], ["--mode", "serve"],
                     ["--mode", "insert"],  # no mode of the plan
                     ["--processes", "3"]):
            run = self.shardc(*self.command(plan, *args)[1:], status=2)
            self.assertIn("error", run.stderr)
            self.assertFalse(os.path.exists(self.path("out")))


if __name__ == "__main__":
    unittest.main()
