"""No function of tests/bootstrap calls itself, and the suite has every test.

A function of the shell stands before a program of its name: `wheel tags` in a
function that `wheel` calls would start all over again, and never end.
"""

import os
import re
import unittest

ROOT = os.environ.get(
    "SHARDC_SOURCE_ROOT",
    os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))


def calls():
    """The names that each function has where a command can begin."""
    with open(os.path.join(ROOT, "tests", "bootstrap")) as file:
        text = file.read()
    bodies = dict(re.findall(r"^(\w+)\(\) \{(.*?)\}$", text, re.M | re.S))
    return {name: [other for other in bodies
                   if re.search(rf"(?:^|[;&|({{]|then|do|\$\()\s*{other}\b(?!=)",
                                body, re.M)]
            for name, body in bodies.items()}


class Functions(unittest.TestCase):
    def test_no_function_reaches_itself(self):
        called = calls()
        self.assertIn("wheel_tools", called["wheel"])
        for start in called:
            reached, waiting = set(), list(called[start])
            while waiting:
                name = waiting.pop()
                if name not in reached:
                    reached.add(name)
                    waiting += called[name]
            self.assertNotIn(start, reached)


def own_commands():
    """The tests that a command of their own runs, and not the suite."""
    with open(os.path.join(ROOT, "tests", "bootstrap")) as file:
        return set(re.findall(r"\w+_test(?=\.py)", file.read()))


def sampled():
    """The tests that run a part of their cases unless SHARDC_COMPLETE is 1."""
    found, tests = set(), os.path.join(ROOT, "tests")
    for folder, _, names in os.walk(tests):
        room, *_ = os.path.relpath(folder, tests).split(os.sep)
        for name in names:
            if not name.endswith(("_test.cc", "_test.py")):
                continue
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                if not re.search(r"\b(RunsAllCases|IsInPart|part_of|some_pairs)\(|"
                                 r"\bimport pack_table\b", file.read()):
                    continue
            short = name.removesuffix("_test.py")
            alone = room in (".", "faults", "portability")
            found.add(room if name.endswith(".cc") else
                      short if alone else f"{room}-{short}")
    return found


class Suite(unittest.TestCase):
    def test_each_test_that_runs_a_part_of_its_cases_is_complete_in_long(self):
        with open(os.path.join(ROOT, "tests", "bootstrap"),
                  encoding="utf-8") as file:
            text = file.read()
        listed = re.search(r"^sampled_tests='([^']*)'$", text, re.M).group(1)
        self.assertEqual(sorted(listed.split()), sorted(sampled()))
        body = re.search(r"^long\(\) \{(.*?)\}$", text, re.M | re.S).group(1)
        self.assertRegex(body, r"SHARDC_COMPLETE=1 meson test .*\$sampled_tests")

    def test_each_test_of_commands_and_of_the_package_is_in_the_suite(self):
        apart, listed = own_commands(), ""
        for path in ("meson.build", "cli/meson.build"):
            with open(os.path.join(ROOT, "tests", path)) as file:
                listed += file.read()
        for folder in ("cli", "python"):
            for name in os.listdir(os.path.join(ROOT, "tests", folder)):
                name, extension = os.path.splitext(name)
                if extension != ".py" or not name.endswith("_test"):
                    continue
                with self.subTest(name):
                    short = name.removesuffix("_test")
                    self.assertTrue(name in apart or re.search(
                        rf"[/'](?:{name}\.py|{short})'", listed))


if __name__ == "__main__":
    unittest.main()
