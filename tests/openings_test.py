"""Sources that hold more than a table open with how they work."""

import os
import re
import unittest

ROOT = os.environ.get(
    "SHARDC_SOURCE_ROOT",
    os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
SRC = os.path.join(ROOT, "src")

# Lines of code that need no explanation, and lines of one that is needed: how
# it works, and a worked line.
SHORT = 60
OPENING = 2

# `constexpr std::array kUnits = {` of a namespace, to its semicolon.
TABLE = re.compile(r"(static )?(constinit|constexpr|const) .*[^;]$")
NO_CODE = re.compile(r"\s*(//.*|#.*|namespace .*|}  // namespace.*|)$")


def opening(text):
    """Lines of comment that a source begins with."""
    lines = text.split("\n")
    return next((i for i, line in enumerate(lines)
                 if not line.startswith("//")), len(lines))


def code_outside_tables(text):
    count, table = 0, False
    for line in text.split("\n"):
        if table:
            table = not line.endswith(";")
        elif TABLE.match(line):
            table = True
        elif not NO_CODE.match(line):
            count += 1
    return count


def sources():
    for folder, _, names in sorted(os.walk(SRC)):
        for name in sorted(names):
            if name.endswith(".cc"):
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as text:
                    yield os.path.relpath(path, SRC), text.read()


class Counting(unittest.TestCase):
    def test_tables_includes_and_comments_are_no_code(self):
        self.assertEqual(0, code_outside_tables(
            '// What it does.\n#include "a.h"\n\nnamespace shardc {\n'
            "constexpr Row kRows[] = {\n    {1, 2},\n    {3, 4},\n};\n"
            "constinit const Lint kLint{\n    .what = \"x; y\",\n"
            "    .rules = R\"(version: 1\n)\"};\n}  // namespace shardc\n"))

    def test_functions_are(self):
        self.assertEqual(4, code_outside_tables(
            "constexpr int kOne = 1;\nint F() {\n  return kOne;\n}\n"))

    def test_an_opening_ends_at_the_first_other_line(self):
        self.assertEqual(2, opening("// a\n// b\n\n// c\n"))
        self.assertEqual(0, opening('#include "a.h"\n// b\n'))


class Openings(unittest.TestCase):
    def test_long_sources_open_with_how_they_work(self):
        bare = {path: code_outside_tables(text) for path, text in sources()
                if opening(text) < OPENING}
        self.assertTrue(bare)
        missing = {path: count for path, count in bare.items()
                   if count > SHORT}
        self.assertEqual({}, missing)


if __name__ == "__main__":
    unittest.main()
