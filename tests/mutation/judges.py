"""What may detect the change that is switched on: the test program of a room, a
test script of commands, a golden transcript, or `shardc verify` itself.

Each judge has `reach(test)`, which runs the test without a change and returns the
changes that it evaluates, and `detects(number, test)`."""

import json
import os
import re
import subprocess
import sys
import tempfile

from compiling import BUILD, MOST, ROOT, Broken, write
from matrices import FILES, MATRICES

sys.path.insert(0, os.path.join(ROOT, "tests", "cli"))
# Scripts that need a program which may be missing, that count instructions, or
# whose files are written by others.
LEFT_OUT = ("golden", "growth", "lsp_neovim", "lsp_vscode", "compilers")


def scripts():
    """The test scripts of commands, relative to the source root."""
    with open(os.path.join(ROOT, "tests", "cli", "meson.build"),
              encoding="utf-8") as file:
        text = file.read()
    names = re.findall(r"'(\w+)'", re.search(
        r"^cli_tests = \[(.*?)\]", text, re.M | re.S)[1])
    names += re.findall(r"'(\w+)'", re.search(
        r"take longer.*?foreach name : \[(.*?)\]", text, re.S)[1])
    return [f"tests/cli/{name}_test.py" for name in names
            if name not in LEFT_OUT] + ["tests/vectors/product_test.py"]


def reached_by(folder, work):
    """Runs `work(path)` and returns the changes that its processes evaluated,
    to which it gives the path."""
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        file.truncate(MOST)
        work(file.name)
        file.seek(0)
        return {i for i, seen in enumerate(file.read()) if seen}


class Tests:
    """Test programs and scripts.

    A change that makes a loop endless is detected by the processor time that
    each process may use, which does not depend on what else the machine does:
    10 s and 5 times those that the unchanged test uses."""

    MOST_VIRTUAL_KIB = 8 << 20

    def __init__(self, folder, seconds, complete):
        self.folder, self.seconds = folder, seconds
        self.processor_seconds = {}
        self.variables = {
            "SHARDC_SOURCE_ROOT": ROOT, "SHARDC_BUILD_ROOT": BUILD,
            "SHARDC_BIN": os.path.join(folder, "shardc"),
            "SHARDC_DESCRIBE_COMMANDS": os.path.join(
                BUILD, "tests", "programs", "describe_commands"),
            # What was never written reads the same in every run.
            "MALLOC_PERTURB_": "165"}
        if complete:
            self.variables["SHARDC_COMPLETE"] = "1"

    @staticmethod
    def used_by_processes():
        """The processor seconds of the processes that have ended."""
        times = os.times()
        return times.children_user + times.children_system

    def reach(self, test):
        """Broken, with what the test printed, if it fails without a change."""
        started = self.used_by_processes()

        def work(path):
            failed = self.failure(test, SHARDC_MUTANTS_REACHED=path)
            if failed is not None:
                raise Broken(f"{test} fails without a change: {failed[-2000:]}")
        reached = reached_by(self.folder, work)
        self.processor_seconds[test] = 10 + 5 * int(
            self.used_by_processes() - started + 1)
        return reached

    def detects(self, number, test):
        return self.failure(test, SHARDC_MUTANT=str(number)) is not None

    def failure(self, test, **variables):
        """What the failing test printed; None if it passes."""
        if test.endswith(".py"):
            command = [sys.executable, "-W", "ignore",
                       os.path.join(ROOT, test), "-f"]
        else:
            command = [os.path.join(self.folder, os.path.basename(test)),
                       "--abort-after=1"]
        limits = (f"ulimit -v {self.MOST_VIRTUAL_KIB}; "
                  f"ulimit -t {self.processor_seconds.get(test, self.seconds)}; "
                  'exec "$@"')
        try:
            done = subprocess.run(
                ["sh", "-c", limits, "sh", *command], check=False,
                env={**os.environ, **self.variables, **variables},
                cwd=self.folder, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                encoding="utf-8", errors="replace", timeout=self.seconds)
        except subprocess.TimeoutExpired:
            return f"not finished after {self.seconds} s"
        return None if done.returncode == 0 else (
            f"{done.stdout}\nexit status {done.returncode}")


class Transcripts:
    """The golden transcripts, each a test of its own."""

    def __init__(self, folder):
        self.folder = folder
        # Both are read of the environment when the modules are loaded.
        os.environ["SHARDC_BIN"] = os.path.join(folder, "shardc")
        os.environ["SHARDC_SOURCE_ROOT"] = ROOT
        import golden_test  # pylint: disable=import-outside-toplevel
        import transcript  # pylint: disable=import-outside-toplevel
        self.golden, self.transcript = golden_test, transcript
        self.sections = golden_test.made()

    def names(self):
        return self.golden.written()

    def differs(self, name, **variables):
        """Whether a run with these variables prints something else."""
        runner = self.transcript.Runner(os.environ["SHARDC_BIN"], ROOT)
        runner.env.update(variables, MALLOC_PERTURB_="165")
        before = self.golden.read(name)
        parts = self.sections.get(name) or self.transcript.parse(before)
        try:
            now = [runner.section(part, self.transcript.head(parts))
                   for part in parts]
        except subprocess.TimeoutExpired:
            return True
        return before != "\n".join(text.rstrip("\n") + "\n" for text in now)

    def reach(self, name):
        """Broken if it differs without a change."""
        def work(path):
            if self.differs(name, SHARDC_MUTANTS_REACHED=path):
                raise Broken("it is not as written")
        return reached_by(self.folder, work)

    def detects(self, number, name):
        return self.differs(name, SHARDC_MUTANT=str(number))


class Verification:
    """`shardc verify` itself: a case of its matrices that passed and does not,
    or is not there; an injected fault of the catalogue that is missed, or a
    known answer that is wrong."""

    NAMES = ("matrices", "catalogue")

    def __init__(self, folder, seconds):
        self.folder, self.seconds = folder, seconds
        self.files = {name: os.path.join(folder, name) for name in FILES}
        for name, text in FILES.items():
            write(self.files[name], text)
        self.right = {}

    def run(self, command, variables):
        try:
            return subprocess.run(
                command, env={**os.environ, **variables}, check=False,
                cwd=self.folder, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, timeout=self.seconds)
        except subprocess.TimeoutExpired:
            return None

    def verdicts(self, name, variables):
        """What was found, a part at a time; None where the program failed."""
        if name == "catalogue":
            done = self.run([os.path.join(self.folder, "detected_faults"),
                             "attention"], variables)
            yield done.returncode == 0 if done else None
            return
        for matrix in MATRICES:
            words = [self.files.get(word, word) for word in matrix]
            done = self.run([os.path.join(self.folder, "shardc"), "verify",
                             "--no-project", "--threads", "1",
                             "--format", "json", *words], variables)
            try:
                report = json.loads(done.stdout)
                yield [(case["operation"], case["status"])
                       for case in report["cases"]]
            except (AttributeError, ValueError, KeyError):
                yield None

    def reach(self, name):
        def work(path):
            self.right[name] = list(self.verdicts(
                name, {"SHARDC_MUTANTS_REACHED": path}))
            if any(not right or "fail" in [case[1] for case in right]
                   for right in self.right[name] if right is not True):
                raise Broken("the unchanged program fails")
        return reached_by(self.folder, work)

    def detects(self, number, name):
        found = self.verdicts(name, {"SHARDC_MUTANT": str(number)})
        return any(now != right
                   for now, right in zip(found, self.right[name]))
