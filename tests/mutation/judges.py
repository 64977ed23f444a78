"""Whether `shardc verify`, its fault catalogue or a test detects the change that is
switched on."""

import json
import os
import subprocess
import sys

import compiling
from compiling import BUILD, ROOT, Broken, Compiler
from matrices import FILES, MATRICES

TESTS = ("exec", "dense", "verify")


class Judges:
    """Each returns whether it detects the mutant that is switched on."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.shardc = os.path.join(compiling.TRIAL, "shardc")
        self.files = {}
        for name, text in FILES.items():
            self.files[name] = os.path.join(compiling.TRIAL, name)
            Compiler.write(self.files[name], text)
        self.right = [self.verdicts(0, matrix) for matrix in MATRICES]

    def run(self, number, command):
        env = {**os.environ, "SHARDC_MUTANT": str(number),
               "SHARDC_SOURCE_ROOT": ROOT, "SHARDC_BUILD_ROOT": BUILD,
               "SHARDC_BIN": self.shardc, "SHARDC_COMPLETE": "1"}
        try:
            return subprocess.run(command, env=env, check=False,
                                  cwd=compiling.TRIAL, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL,
                                  timeout=self.seconds)
        except subprocess.TimeoutExpired:
            return None

    def verdicts(self, number, matrix):
        """Of each case its status; nothing where the program failed."""
        words = [self.files.get(word, word) for word in matrix]
        done = self.run(number, [self.shardc, "verify", "--no-project",
                                 "--threads", "1", "--format", "json", *words])
        if done is None or done.returncode not in (0, 1):
            return None
        try:
            report = json.loads(done.stdout)
        except ValueError:
            return None
        return [(case["operation"], case["status"])
                for case in report["cases"]]

    def matrix(self, number):
        """A case that passed and does not, or is not there."""
        return any(self.verdicts(number, matrix) != right
                   for matrix, right in zip(MATRICES, self.right))

    def catalogue(self, number):
        """An injected fault that is missed, or a known answer that is wrong."""
        done = self.run(number, [os.path.join(compiling.TRIAL, "detected_faults"),
                                 "attention"])
        return done is None or done.returncode != 0

    def tests(self, number):
        for name in TESTS:
            program = os.path.join(compiling.TRIAL, name + "_test")
            done = self.run(number, [program, "--abort-after=1",
                                     "--no-path-filenames=true"])
            if done is None or done.returncode != 0:
                return True
        return False


class RoomTests:
    """Whether the test that the list names detects a change of a room: the
    room's own test program, or a Python test that runs the command.

    A change that makes a loop endless is detected by the processor time that
    each process may use, which does not depend on what else the machine does:
    10 s and 5 times those that the unchanged test uses."""

    MOST_VIRTUAL_KIB = 8 << 20

    def __init__(self, seconds):
        self.seconds = seconds
        self.processor_seconds = {}

    def accept(self, test):
        """Runs the test without a change; Broken, with what the test printed,
        if it fails."""
        started = self.used_by_processes()
        failed = self.failure(0, test)
        if failed is not None:
            raise Broken(f"{test} fails without a change: {failed[-2000:]}")
        self.processor_seconds[test] = 10 + 5 * int(
            self.used_by_processes() - started + 1)

    @staticmethod
    def used_by_processes():
        """The processor seconds of the processes that have ended."""
        times = os.times()
        return times.children_user + times.children_system

    def detects(self, number, test):
        return self.failure(number, test) is not None

    def failure(self, number, test):
        """What the failing test printed; None if it passes."""
        if test.endswith(".py"):
            command = [sys.executable, "-W", "ignore",
                       os.path.join(ROOT, test), "-f"]
        else:
            command = [os.path.join(compiling.TRIAL, test), "--abort-after=1"]
        limits = (f"ulimit -v {self.MOST_VIRTUAL_KIB}; "
                  f"ulimit -t {self.processor_seconds.get(test, self.seconds)}; "
                  'exec "$@"')
        env = {**os.environ, "SHARDC_MUTANT": str(number),
               "SHARDC_SOURCE_ROOT": ROOT, "SHARDC_BUILD_ROOT": BUILD,
               "SHARDC_BIN": os.path.join(compiling.TRIAL, "shardc"),
               "SHARDC_COMPLETE": "1",
               # What was never written reads the same in every run.
               "MALLOC_PERTURB_": "165"}
        try:
            done = subprocess.run(["sh", "-c", limits, "sh", *command],
                                  env=env, check=False, cwd=compiling.TRIAL,
                                  stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT,
                                  encoding="utf-8", errors="replace",
                                  timeout=self.seconds)
        except subprocess.TimeoutExpired:
            return f"not finished after {self.seconds} s"
        return None if done.returncode == 0 else (
            f"{done.stdout}\nexit status {done.returncode}")


def own_test(mutant):
    return mutant.file.split("/")[0] + "_test"


def test_of(mutant):
    """The test that must detect it; the room's own where none can."""
    named = mutant.reason.split(" ")[0]
    return (named if named.endswith((".py", "_test")) else own_test(mutant))
