"""A check that fails prints both values so that a reader sees the difference."""

import re
import subprocess
import sys
import unittest

FAILING = sys.argv.pop(1)
# What each check of failing.cc prints, in its order.
VALUES = [
    "all_gather ba 0 == reduce",
    "all_gather == tp",
    "tp == all_gather",
    "a/b == a/c",
    "kAllGather == kAllToAll",
    "kAuto == 99",
    "nullopt == kAllReduce",
    '{"dp": [1, 2]} == {}',
    '(1, "x") == (2, "y")',
    "one == 1",
    "[true, false] == [true]",
    "3 == nullopt",
    '{"tp", 4, kAuto} == {"tp", 8, kAuto}',
    "{[[], [], [], [], [], [], [], []], 1, 0} == "
    "{[[], [], [], [], [], [], [], []], 0, 0}",
    "closed 1 == closed 2",
    "1099511627776 == 0.5",
    "1 == Approx( 2 )",
    "nullptr != nullptr",
    '&{"tp", 4, kAuto} == &{"dp", 8, kAuto}',
    "&closed 1 == nullptr",
    "&3 == nullptr",
    '&"a text" == nullptr',
    "&3 == nullopt",
    "&a name == nullptr",
    "&{1, &printed::Chain} == nullptr",
    "false",
    "&void == nullptr",
    "&printed::Hidden == nullptr",
    "&int() == nullptr",
]


class Printing(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        done = subprocess.run([FAILING], check=False, stdout=subprocess.PIPE,
                              encoding="utf-8")
        cls.status, cls.output = done.returncode, done.stdout

    def test_every_check_prints_both_values(self):
        self.assertNotEqual(self.status, 0)
        self.assertEqual(
            re.findall(r"^  values: CHECK\( (.*) \)$", self.output, re.M),
            VALUES)

    def test_no_value_is_an_address_or_unknown(self):
        self.assertNotIn("{?}", self.output)
        self.assertIsNone(re.search(r"0x[0-9a-f]{6,}", self.output))

    def test_messages_print_values_too(self):
        self.assertIn(':= {"dp", 2, kAuto}', self.output)
        self.assertIn("of axes kManual", self.output)

    def test_a_place_has_its_folder(self):
        self.assertRegex(self.output,
                         r"(?m)^\S*tests/printing/failing\.cc:\d+: ERROR")


if __name__ == "__main__":
    unittest.main()
