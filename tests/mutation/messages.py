"""Measures whether the tests detect small changes to messages and outputs.

    tests/mutation/messages.py [--only NAME,...] [--without-golden] [--check]

Each mutation of mutations.py is put into a copy of the source, the program
and the test programs that matter are built, and the tests run until one of
them fails. A line names the test that detected it; the last one is the score. The exit
status is 1 if a mutation was missed. `--without-golden` leaves the
transcripts of testdata/golden out, `--check` only looks whether every
mutation applies, exactly once. The copy stays in build/mutation, so that the
next run builds little.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time

from mutations import MUTATIONS

ROOT = os.environ.get(
    "SHARDC_SOURCE_ROOT",
    os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..")))
JOBS = 2
PROGRAM = "src/cli/shardc"
UNITS = ("lint", "emit", "comm", "plan", "match", "source", "parse", "suggest")
# From the fast ones to the slow ones, and those that are about words first.
SCRIPTS = ("check", "check_formats", "readme", "plan", "man", "schemas",
           "semantics", "hooks", "packs", "hostile", "verify",
           "check_corpus")


class Broken(Exception):
    """A mutation that cannot be judged."""


def source_files(folder):
    """Paths of a folder's sources by their basename."""
    files = {}
    for here, _, names in os.walk(os.path.join(folder, "src")):
        for name in names:
            files.setdefault(name, []).append(os.path.join(here, name))
    return files


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def place(mutation, files):
    """The one file that holds the mutation's text once."""
    name, basename, old, new = mutation
    named = [path for path in files.get(basename, []) if old in read(path)]
    # A file that was renamed is found by the text alone.
    everywhere = (path for paths in files.values() for path in paths)
    hits = [path for path in named or everywhere
            for _ in range(read(path).count(old))]
    if len(hits) != 1:
        raise Broken(f"{name}: its text stands at {len(hits)} places, in "
                     f"{basename} or, where there is none, in the source")
    if old == new:
        raise Broken(f"{name}: changes nothing")
    return hits[0]


def check(mutations, files):
    """What is wrong with the list, a line each."""
    names = [mutation[0] for mutation in mutations]
    wrong = [f"{name}: two of this name" for name in sorted(set(names))
             if names.count(name) > 1]
    for mutation in mutations:
        try:
            place(mutation, files)
        except Broken as error:
            wrong.append(str(error))
    return wrong


class Copy:
    """A copy of the source with a build folder of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.build = os.path.join(folder, "build")
        self.refresh()
        if not os.path.exists(os.path.join(self.build, "build.ninja")):
            self.run(["meson", "setup", self.build, folder])
        self.make()
        self.files = source_files(folder)

    def refresh(self):
        """Makes the copy's files those of the source; what is the same keeps
        its date, and with it what is built."""
        listed = subprocess.run(
            ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others",
             "--exclude-standard"], check=True, stdout=subprocess.PIPE,
            encoding="utf-8").stdout.split("\0")
        wanted = {name for name in listed
                  if name and os.path.lexists(os.path.join(ROOT, name))}
        for here, folders, names in os.walk(self.folder):
            if here == self.folder and "build" in folders:
                folders.remove("build")
            for name in names:
                path = os.path.join(here, name)
                if os.path.relpath(path, self.folder) not in wanted:
                    os.remove(path)
        for name in sorted(wanted):
            self.copy(os.path.join(ROOT, name),
                      os.path.join(self.folder, name))

    @staticmethod
    def copy(source, target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if os.path.exists(target):
            with open(source, "rb") as one, open(target, "rb") as other:
                if one.read() == other.read():
                    return
        shutil.copy(source, target, follow_symlinks=False)

    @staticmethod
    def run(command, **more):
        done = subprocess.run(command, check=False, encoding="utf-8",
                              errors="replace", stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, **more)
        if done.returncode != 0:
            raise Broken(f"{' '.join(command)}\n{done.stdout[-2000:]}")

    def make(self, *targets):
        targets = targets or (PROGRAM, *(f"tests/{u}_test" for u in UNITS))
        self.run(["ninja", "-C", self.build, f"-j{JOBS}", *targets])

    def passes(self, command, **env):
        try:
            done = subprocess.run(
                command, check=False, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, cwd=self.folder, timeout=600,
                env={**os.environ, **env, "SHARDC_SOURCE_ROOT": self.folder,
                     "SHARDC_BUILD_ROOT": self.build,
                     "SHARDC_BIN": os.path.join(self.build, PROGRAM)})
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

    def script(self, name, *args):
        return self.passes([sys.executable, os.path.join(
            self.folder, "tests", "cli", f"{name}_test.py"), *args])

    def unit(self, name):
        return self.passes([os.path.join(self.build, "tests",
                                         f"{name}_test")])

    def noticed_by(self, golden):
        """The first test that fails, or nothing."""
        self.make(PROGRAM)
        if golden and not self.script("golden", "--first"):
            return "golden"
        self.make()
        for name in UNITS:
            if not self.unit(name):
                return name
        for name in SCRIPTS:
            if not self.script(name):
                return name
        return None


def judge(copy, mutation, golden):
    path = place(mutation, copy.files)
    before = read(path)
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(before.replace(mutation[2], mutation[3]))
        return copy.noticed_by(golden)
    except Broken as error:
        raise Broken(f"{mutation[0]}: {error}") from error
    finally:
        with open(path, "w", encoding="utf-8") as file:
            file.write(before)


def score(copy, mutations, golden):
    """The number of mutations that were detected."""
    detected = 0
    for mutation in mutations:
        start = time.monotonic()
        by = judge(copy, mutation, golden)
        detected += by is not None
        print(f"{mutation[0]:<36} {by or 'UNNOTICED':<14} "
              f"{time.monotonic() - start:5.1f} s", flush=True)
    return detected


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--without-golden", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--folder",
                        default=os.path.join(ROOT, "build", "mutation"))
    given = parser.parse_args()
    wrong = check(MUTATIONS, source_files(ROOT))
    for line in wrong:
        print(line)
    if wrong or given.check:
        return 2 if wrong else 0
    only = given.only.split(",") if given.only else []
    unknown = set(only) - {mutation[0] for mutation in MUTATIONS}
    if unknown:
        print("no mutations:", ", ".join(sorted(unknown)))
        return 2
    chosen = [m for m in MUTATIONS if not only or m[0] in only]
    try:
        copy = Copy(given.folder)
        clean = copy.noticed_by(not given.without_golden)
        if clean:
            print(f"the test {clean} fails without any mutation")
            return 2
        detected = score(copy, chosen, not given.without_golden)
    except Broken as error:
        print(error)
        return 2
    print(f"{detected} of {len(chosen)} detected")
    return 0 if detected == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
