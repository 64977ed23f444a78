"""Runs the real binary for the tests of commands."""

import json
import os
import subprocess
import unittest

ROOT = os.environ.get(
    "SHARDC_SOURCE_ROOT",
    os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..")))
BIN = os.environ.get("SHARDC_BIN",
                     os.path.join(ROOT, "build", "src", "cli", "shardc"))
TESTDATA = os.path.join(ROOT, "testdata")
MODELS = os.path.join(TESTDATA, "models")


class Result:
    def __init__(self, done):
        self.rc = done.returncode
        self.out = done.stdout
        self.err = done.stderr

    def json(self):
        return json.loads(self.out)

    def __repr__(self):
        return f"rc={self.rc}\nstdout:\n{self.out}\nstderr:\n{self.err}"


def run(*args, cwd=ROOT, stdin="", env=None, timeout=900):
    """One run of shardc: text in, text out, exit status."""
    environment = {k: v for k, v in os.environ.items()
                   if k not in ("NO_COLOR", "CLICOLOR_FORCE",
                                "GITHUB_WORKSPACE")}
    environment.update(env or {})
    return Result(subprocess.run(
        [BIN, *map(str, args)], cwd=cwd, input=stdin, env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout,
        encoding="utf-8", errors="surrogateescape"))


class Case(unittest.TestCase):
    """A test case that tells the whole run when a check fails."""

    def check(self, result, rc):
        self.assertEqual(result.rc, rc, repr(result))
        self.assertGreaterEqual(result.rc, 0, "killed by a signal")
        return result
