"""The mistakes of testdata/golden/mistakes: each has its message there, which
cli-golden holds, and a grade that a reader gave the message alone."""

import os
import re
import unittest

import driver
from driver import TESTDATA

FOLDER = os.path.join(TESTDATA, "golden", "mistakes")


def sections():
    out = []
    for name in sorted(os.listdir(FOLDER)):
        with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
            out += re.split(r"(?m)^(?==== )", file.read())[1:]
    return out


class Mistakes(unittest.TestCase):
    def test_each_has_a_grade_and_nearly_all_messages_help(self):
        grades = []
        for section in sections():
            with self.subTest(section.split("\n")[0]):
                grades.append(int(re.search(r"(?m)^# Grade ([1-5])\.$",
                                            section).group(1)))
        self.assertGreaterEqual(len(grades), 150)
        self.assertGreaterEqual(sum(grade >= 4 for grade in grades),
                                len(grades) * 145 / 150)

    def test_each_fails_with_a_message(self):
        for section in sections():
            with self.subTest(section.split("\n")[0]):
                self.assertRegex(section, r"(?m)^\[[12]\]$")
                self.assertRegex(section, r"(?m)^[! ] error\[SHD\d{3} ")

    def test_every_command_has_one(self):
        text = "\n".join(sections())
        for name in driver.commands():
            self.assertRegex(text, rf"(?m)^\$ (cd \w+ && )?shardc {name}\b")


if __name__ == "__main__":
    unittest.main()
