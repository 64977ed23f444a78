"""Every kind of input, changed with its structure in mind, in the commands that read it.

Members of YAML and JSON are replaced, removed, moved and repeated, numbers grow and
change their sign, names refer to other names of the file, words of expressions and
lines of texts are exchanged; some bytes change too. No run may end by a signal, take
10 s of processor time or 500 MB, or end otherwise than with status 0 or 1, or with
status 2 and a diagnostic.

    SHARDC_MUTATED_RUNS=50000 SHARDC_MUTATED_SEED=7 mutated_inputs_test.py

prints a table: the runs of each kind by status, with the longest and the largest one.
An ordinary run is a sample."""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

from driver import BIN, is_sanitized
from mutated_evidence import evidence
from mutated_kinds import ALONE, LLAMA, MESH, kinds
from mutated_systems import systems

RUNS = int(os.environ.get("SHARDC_MUTATED_RUNS", "150"))
SEED = int(os.environ.get("SHARDC_MUTATED_SEED", "1"))
MOST_SECONDS, MOST_KB = 10, 500_000


class Row:
    """The runs of one kind."""

    def __init__(self):
        self.statuses, self.longest, self.largest = {}, 0, 0

    def add(self, status, seconds, memory):
        self.statuses[status] = self.statuses.get(status, 0) + 1
        self.longest = max(self.longest, seconds)
        self.largest = max(self.largest, memory)

    def __str__(self):
        runs = sum(self.statuses.values())
        ended = ", ".join(f"{count} with {status}"
                          for status, count in sorted(self.statuses.items()))
        return (f"{runs:6} runs {self.longest:5.2f} s {self.largest / 1000:4.0f} MB"
                f"  {ended}")


@unittest.skipIf(is_sanitized(), "the sanitizers need more time and memory")
class Mutated(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        for name, data in (
                ("config.json", LLAMA),
                ("own.config.json", {"model_type": "own", "hidden_size": 64, "heads": 8,
                                     "depth": 2, **{k: v for k, v in LLAMA.items()
                                                    if k not in ("model_type",
                                                                 "architectures",
                                                                 "hidden_size")},
                                     "d_model": 64, "d_kv": 8, "d_ff": 128,
                                     "num_layers": 2, "num_heads": 8}),
                ("rules.yaml", {"version": 1, "rules": [
                    {"match": "proj", "spec": ["fsdp", "tp"]},
                    {"match": ".*", "spec": []}]}),
                ("any.yaml", {"version": 1, "rules": [
                    {"match": ".*", "spec": ["tp"], "illegal": "drop"}]})):
            with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
                json.dump(data, file)
        self.make("plan", *MESH, "--rules", "rules.yaml", "--model", "config.json", ALONE,
                  "-q", "-o", "plan.json")

    def make(self, *arguments):
        """Makes a file, or inputs to begin with."""
        done = subprocess.run([BIN, *arguments], cwd=self.folder, capture_output=True,
                              check=False)
        self.assertIn(done.returncode, (0, 1), (arguments, done.stderr))
        return done.stdout

    def copy(self, folder, name):
        """Makes an empty folder, or a copy of one."""
        to = os.path.join(self.folder, name)
        if os.path.isdir(to):
            shutil.rmtree(to)
        if folder and os.path.isdir(folder):
            shutil.copytree(folder, to)
        elif folder:
            os.mkdir(to)

    def run_one(self, arguments, given=b"", inside="."):
        """The status, seconds of the processor, greatest memory in KB and messages."""
        with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as stdin:
            stdin.write(given)
            stdin.seek(0)
            child = subprocess.Popen([BIN, *arguments],
                                     cwd=os.path.join(self.folder, inside), stdin=stdin,
                                     stdout=subprocess.DEVNULL, stderr=said)
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            said.seek(0)
            text = said.read().decode("utf-8", "replace")
        return (child.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss, text)

    def test_changed_inputs_are_read_or_refused(self):
        rng = random.Random(SEED)
        all_kinds = [
            *kinds(self.make, self.folder), *evidence(self.make, self.folder), *systems()]
        rows = {}
        for run in range(RUNS):
            kind = all_kinds[run % len(all_kinds)]
            data = kind.text(rng)
            name = os.path.join("changed", kind.suffix) if kind.folder \
                else "changed" + kind.suffix
            if kind.folder:
                self.copy(kind.folder, "changed")
            with open(os.path.join(self.folder, name), "wb") as file:
                file.write(data)
            command = [word.replace("{folder}", "changed").replace("{}", name)
                       for word in kind.arguments(rng)]
            self.copy(None, "out")
            given = data if "{stdin}" in command else b""
            inside = "changed" if "{inside}" in command else "."
            status, seconds, memory, text = self.run_one(
                [word for word in command if word not in ("{stdin}", "{inside}")], given,
                inside)
            row = rows.setdefault(kind.name, Row())
            row.add(status, seconds, memory)
            good = (status in (0, 1) or status == 2 and "error" in text) \
                and seconds < MOST_SECONDS and memory < MOST_KB
            if not good:
                kept = tempfile.mkdtemp(prefix="shardc_mutated_")
                with open(os.path.join(kept, os.path.basename(name)), "wb") as file:
                    file.write(data)
                self.fail(f"{' '.join(command)}: status {status}, {seconds:.1f} s,"
                          f" {memory} KB\n{text[-1500:]}\nthe input is in {kept}")
        if "SHARDC_MUTATED_RUNS" in os.environ:
            for name, row in sorted(rows.items()):
                print(f"{name:24} {row}", file=sys.stderr)
            print(f"{RUNS} runs of {len(all_kinds)} kinds with seed {SEED}: longest"
                  f" {max(row.longest for row in rows.values()):.2f} s, largest"
                  f" {max(row.largest for row in rows.values()) / 1000:.0f} MB",
                  file=sys.stderr)


if __name__ == "__main__":
    unittest.main()
