"""The guides of a first hour on the live systems, every command of a page, and what
is recorded of them for the ordinary tests (tests/cli/readme_test.py).

With SHARDC_RECORD=1 the files that differ are written again.
"""

import gzip
import json
import os
import sys
import tempfile

ROOT = os.environ.get(
    "SHARDC_SOURCE_ROOT",
    os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..")))
BIN = os.environ.get(
    "SHARDC_BIN", os.path.join(ROOT, "build", "src", "cli", "shardc"))
sys.path.insert(0, os.path.join(ROOT, "tests", "trials"))

import guides  # noqa: E402


def parsed(data, left_out):
    """The JSON of a file, without members that state a version."""
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    return {**json.loads(data), **dict.fromkeys(left_out)}


def check(case, kind, recorded):
    """Runs the page in an empty folder. `recorded` has the names of the files that
    the tests keep, and the members of each that another version may change."""
    # As where the wheel is installed, with the Python that has the framework.
    env = dict(os.environ, TERM="dumb", SHARDC=BIN,
               PATH=os.pathsep.join([os.path.dirname(BIN),
                                     os.path.dirname(sys.executable),
                                     os.environ["PATH"]]),
               PYTHONPATH=os.path.join(ROOT, "python"),
               PYTHONDONTWRITEBYTECODE="1")
    env.pop("XLA_FLAGS", None)
    page = os.path.join(ROOT, "docs", "guides", f"first-hour-{kind}.md")
    made = dict.fromkeys(recorded)
    with tempfile.TemporaryDirectory() as folder:
        count = 0
        for command, _, wrong in guides.run(page, env, folder, made):
            count += 1
            with case.subTest(command):
                case.assertEqual(wrong, "")
    case.assertGreater(count, 10)
    for name, left_out in recorded.items():
        path = os.path.join(ROOT, "testdata", "first_hour", kind, name)
        if os.environ.get("SHARDC_RECORD"):
            with open(path, "wb") as file:
                file.write(made[name])
        with open(path, "rb") as file:
            case.assertEqual(parsed(made[name], left_out),
                             parsed(file.read(), left_out))
