"""Verification detects each fault of its catalogues, as docs/detected-faults.md
publishes it.

`detected_faults_test.py --write` writes the page again.
"""

import os
import re
import subprocess
import sys
import unittest

ROOT = os.environ.get(
    "SHARDC_SOURCE_ROOT",
    os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
BUILD = os.environ.get("SHARDC_BUILD_ROOT", os.path.join(ROOT, "build"))
PROGRAM = os.path.join(BUILD, "tests", "detected_faults")
PAGE = os.path.join(ROOT, "docs", "detected-faults.md")
TABLE = re.compile(r"(?<=```text\n).*?(?=```\n)", re.S)
# In the order of the page.
CATALOGUES = ("attention", "steps")


def read():
    with open(PAGE, encoding="utf-8") as file:
        return file.read()


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True,
                          check=False)


def write():
    tables = iter([run(name, "2").stdout for name in CATALOGUES])
    text = TABLE.sub(lambda _: next(tables), read())
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(text)


class DetectedFaults(unittest.TestCase):
    def test_the_page_has_the_score(self):
        tables = TABLE.findall(read())
        self.assertEqual(len(tables), len(CATALOGUES))
        for name, table in zip(CATALOGUES, tables):
            with self.subTest(name):
                done = run(name, "2")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertEqual(done.stdout.splitlines(), table.splitlines())

    def test_another_catalogue_is_refused(self):
        for arguments in ([], ["kernels"]):
            done = run(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn("usage:", done.stderr)


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write()
        sys.exit()
    unittest.main(argv=[sys.argv[0]])
