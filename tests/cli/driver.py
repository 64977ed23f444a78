"""Runs the real binary for the tests of commands."""

import functools
import json
import os
import re
import subprocess
import tempfile
import unittest
import zlib

ROOT = os.environ.get(
    "SHARDC_SOURCE_ROOT",
    os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..")))
BIN = os.environ.get("SHARDC_BIN",
                     os.path.join(ROOT, "build", "src", "cli", "shardc"))
TESTDATA = os.path.join(ROOT, "testdata")
MODELS = os.path.join(TESTDATA, "models")


# Words of the inside, which no user should read: looked for in all that any
# test's run prints.
INTERNAL = re.compile(
    r"std::|bad_alloc|terminate called|what\(\)|basic_string|length_error|"
    r"out_of_range|runtime_error|CLI::|YAML::|RE2::|shardc::|nlohmann|__cxa|"
    r"Assertion|nullptr")


def is_sanitized():
    """Whether the program has its own allocator, which limits of memory break."""
    with open(BIN, "rb") as file:
        return b"__asan_init" in file.read()


# tests/bootstrap `long` sets this, and the draws of tests/mutation.
COMPLETE = os.environ.get("SHARDC_COMPLETE") == "1"


@functools.cache
def turn_of_cases():
    """The number with which a part begins: SHARDC_TURN, or another one whenever
    the program changes."""
    turn = os.environ.get("SHARDC_TURN")
    if turn is not None:
        return int(turn)
    with open(BIN, "rb") as file:
        return zlib.crc32(file.read())


def part_of(cases, every):
    """Returns all cases with SHARDC_COMPLETE=1. Otherwise returns one of each
    `every` consecutive cases: those whose index is turn_of_cases() modulo
    `every`."""
    cases = list(cases)
    return cases if COMPLETE else cases[turn_of_cases() % every::every]


def one_in(usual):
    """Of how many cases a test runs one that takes minutes for all of them:
    SHARDC_EVERY, for a run by hand, or else the usual number."""
    return int(os.environ.get("SHARDC_EVERY", usual))


class Result:
    def __init__(self, done):
        self.rc = done.returncode
        self.out = done.stdout
        self.err = done.stderr

    def json(self):
        return json.loads(self.out)

    def __repr__(self):
        return f"rc={self.rc}\nstdout:\n{self.out}\nstderr:\n{self.err}"


def commands():
    """The commands of one word, in the order of `shardc --help`."""
    return re.findall(r"^  ([a-z]+) ", run("--help").out.split("Start:\n")[1],
                      re.M)


def run(*args, cwd=ROOT, stdin="", env=None, timeout=900):
    """One run of shardc: text in, text out, exit status."""
    environment = {k: v for k, v in os.environ.items()
                   if k not in ("NO_COLOR", "CLICOLOR_FORCE",
                                "GITHUB_WORKSPACE")}
    environment.update(env or {})
    result = Result(subprocess.run(
        [BIN, *map(str, args)], cwd=cwd, input=stdin, env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout,
        encoding="utf-8", errors="surrogateescape"))
    word = INTERNAL.search(result.out) or INTERNAL.search(result.err)
    if word and word.group() not in " ".join(map(str, args)) + stdin:
        raise AssertionError(f"`{word.group()}` is printed: {result!r}")
    return result


class Case(unittest.TestCase):
    """A test case that prints the complete run when a check fails."""

    def check(self, result, rc):
        self.assertEqual(result.rc, rc, repr(result))
        self.assertGreaterEqual(result.rc, 0, "killed by a signal")
        return result


class FolderCase(Case):
    """A test case whose tests each have a folder of their own."""

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, text):
        """Writes a text and returns its path."""
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)
