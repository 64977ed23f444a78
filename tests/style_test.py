"""clang-format and clang-tidy find nothing."""

import concurrent.futures
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

ROOT = os.environ.get(
    "SHARDC_SOURCE_ROOT",
    os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
BUILD = os.environ.get("SHARDC_BUILD_ROOT", os.path.join(ROOT, "build"))
# What clang-tidy reads: the program, and what judges it.
TIDY = ("src/", "tests/reference/")
# One of so many files, another part whenever the sources change; all of them
# by hand, `meson test -C build style`.
EVERY = int(os.environ.get("SHARDC_TIDY_EVERY", "1"))


def sources(folders, endings):
    for folder in folders:
        for here, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in names:
                if name.endswith(endings):
                    yield os.path.join(here, name)


def read(path):
    with open(path, "rb") as file:
        return file.read()


class Format(unittest.TestCase):
    maxDiff = None

    @unittest.skipUnless(shutil.which("clang-format"), "no clang-format")
    def test_every_file_is_formatted(self):
        files = sorted(sources(["src", "tests", "bench"], (".cc", ".h")))
        self.assertTrue(files)
        run = subprocess.run(
            ["clang-format", "--dry-run", "-Werror", "--ferror-limit=1",
             *files], capture_output=True, text=True, check=False)
        self.assertEqual(run.stderr, "")
        self.assertEqual(run.returncode, 0)


def alone(entry):
    """The commands of the sources that a command compiles together."""
    if not entry["file"].endswith(".unit.cc"):
        return [entry]
    unit = read(os.path.join(entry["directory"], entry["file"])).decode()
    out = []
    for name in re.findall(r'#include "([^"]+)"', unit):
        top = "tests" if entry["output"].startswith("tests") else "src"
        path = os.path.relpath(os.path.join(ROOT, top, name),
                               entry["directory"])
        out.append({**entry, "file": path, "command": entry["command"].replace(
            entry["file"], path)})
    return out


class Headers:
    """Which of our headers a file reads, through all of them."""

    def __init__(self):
        self.direct = {}

    def included(self, path):
        if path not in self.direct:
            names = re.findall(rb'^\s*#\s*include\s+"([^"]+)"', read(path), re.M)
            places = (os.path.join(ROOT, top, name.decode())
                      for name in names for top in ("src", "tests"))
            self.direct[path] = [p for p in places if os.path.exists(p)]
        return self.direct[path]

    def all(self, path):
        found = []
        waiting = [path]
        while waiting:
            for header in self.included(waiting.pop()):
                if header not in found:
                    found.append(header)
                    waiting.append(header)
        return sorted(found)


class Tidy(unittest.TestCase):
    """The result of clang-tidy for a file is valid while the file, the headers that
    it reads, the configuration and the command stay the same; it is kept in
    the build folder, so that only what changed is read again."""

    maxDiff = None

    def commands(self, kept):
        """A command for each source, that of its unit where the build compiles
        folders together. It is without the precompiled header, because each
        file must include what it uses, and without options that only g++ has."""
        with open(os.path.join(BUILD, "compile_commands.json")) as file:
            entries = [one for entry in json.load(file) for one in alone(entry)]
        for entry in entries:
            entry["command"] = re.sub(
                r" -include \S+| -include-pch \S+| -fpch-preprocess"
                r"| -Winvalid-pch| --param=\S+| -ftree-sra"
                r"| -finline-functions-called-once", "", entry["command"])
        with open(os.path.join(kept, "compile_commands.json"), "w") as file:
            json.dump(entries, file)
        for entry in entries:
            path = os.path.normpath(
                os.path.join(entry["directory"], entry["file"]))
            inside = os.path.relpath(path, ROOT).replace(os.sep, "/")
            if inside.startswith(TIDY) and path.endswith(".cc"):
                yield path, entry["command"]

    def check(self, path, state, kept):
        clean = os.path.join(kept, state)
        if os.path.exists(clean):
            return ""
        run = subprocess.run(
            ["clang-tidy", "--quiet", "-p", kept,
             "--extra-arg=-Wno-unknown-warning-option", path],
            capture_output=True, text=True, check=False)
        if run.returncode == 0:
            open(clean, "w").close()
            return ""
        return run.stdout + run.stderr

    @staticmethod
    def digest(paths):
        """A digest of the sources, wherever the tree is: the same sources
        have the same part of them read on every machine."""
        tree = hashlib.sha256()
        for path in sorted(paths):
            tree.update(os.path.relpath(path, ROOT).encode() + b"\0")
            tree.update(hashlib.sha256(read(path)).digest())
        return tree.hexdigest()

    @unittest.skipUnless(shutil.which("clang-tidy"), "no clang-tidy")
    def test_every_source_is_tidy(self):
        kept = os.path.join(BUILD, "tidy")
        os.makedirs(kept, exist_ok=True)
        headers = Headers()
        jobs = []
        for path, command in self.commands(kept):
            state = hashlib.sha256(read(os.path.join(ROOT, ".clang-tidy")))
            state.update(command.encode())
            for file in [path, *headers.all(path)]:
                state.update(file.encode() + b"\0" + read(file))
            jobs.append((path, state.hexdigest(), kept))
        self.assertTrue(jobs)
        part = int(self.digest(job[0] for job in jobs), 16) % EVERY
        jobs = sorted(jobs)[part::EVERY]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            said = list(pool.map(lambda job: self.check(*job), jobs))
        self.assertEqual("".join(said), "")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
