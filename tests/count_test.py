"""What count.py makes of a test log."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

COUNT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "count.py")
DOCTEST = ("[doctest] test cases:  5 |  4 passed | 1 failed | 0 skipped\n"
           "[doctest] assertions: 90 | 89 passed | 1 failed |\n")


def entry(result, stdout="", stderr="", name="a"):
    return {"name": name, "stdout": stdout, "stderr": stderr, "result": result}


class Count(unittest.TestCase):
    def output(self, *builds):
        """The lines that count.py prints, and its status."""
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for index, entries in enumerate(builds):
                path = os.path.join(folder, str(index))
                os.makedirs(os.path.join(path, "meson-logs"))
                log = os.path.join(path, "meson-logs", "testlog.json")
                with open(log, "w", encoding="utf-8") as file:
                    for line in entries:
                        file.write(json.dumps(line) + "\n")
                paths.append(path)
            run = subprocess.run([sys.executable, COUNT, *paths], check=False,
                                 capture_output=True, text=True)
        return run.stdout.splitlines(), run.returncode

    def count(self, *builds):
        lines, status = self.output(*builds)
        return lines[-1], status

    def test_counts(self):
        table = [
            ("doctest cases", [entry("FAIL", DOCTEST)],
             "4 passed, 1 failed", 1),
            ("unittest", [entry("OK", stderr="Ran 7 tests in 0.1s\n\nOK\n")],
             "7 passed, 0 failed", 0),
            ("unittest with skips",
             [entry("OK", stderr="Ran 7 tests in 1s\n\nOK (skipped=2)\n")],
             "5 passed, 0 failed", 0),
            ("nothing but skips", [entry(
                "OK", stderr="Ran 2 tests in 1s\n\nOK (skipped=2)\n")],
             "0 passed, 0 failed", 1),
            ("unittest with failures",
             [entry("FAIL", stderr="Ran 7 tests in 1s\n\n"
                    "FAILED (failures=1, errors=2, skipped=1)\n")],
             "3 passed, 3 failed", 1),
            ("recorded cases",
             [entry("OK", "mesh: 10 passed, 0 failed, 2 differ by design\n"
                          "match: 30 passed, 0 failed\n")],
             "40 passed, 0 failed", 0),
            ("a crash", [entry("FAIL", "half a lin")],
             "0 passed, 1 failed", 1),
            ("a time-out", [entry("TIMEOUT")], "0 passed, 1 failed", 1),
            ("a program without a count", [entry("OK")],
             "1 passed, 0 failed", 0),
            ("a skipped program", [entry("OK"), entry("SKIP", name="b")],
             "1 passed, 0 failed", 0),
            ("nothing", [], "0 passed, 0 failed", 1),
        ]
        for name, entries, line, status in table:
            with self.subTest(name):
                self.assertEqual(self.count(entries), (line, status))

    def test_a_build_without_a_log_failed(self):
        with tempfile.TemporaryDirectory() as folder:
            run = subprocess.run([sys.executable, COUNT, folder], check=False,
                                 capture_output=True, text=True)
        self.assertEqual(run.stdout.splitlines()[-1], "0 passed, 1 failed")
        self.assertEqual(run.returncode, 1)

    def test_what_failed_is_shown_before_the_counts(self):
        failed = entry("FAIL", DOCTEST, "a reason\nFAILED (failures=1)\n", "b")
        lines, _ = self.output([entry("OK", "unseen"), failed])
        text = "\n".join(lines)
        self.assertIn("b (FAIL)\n", text)
        self.assertIn("    a reason\n", text)
        self.assertNotIn("unseen", text)
        long = entry("FAIL", "\n".join(f"line {i}" for i in range(1000)))
        lines, _ = self.output([long])
        self.assertIn("    line 999", lines)
        self.assertLess(len(lines), 100)

    def test_programs_of_other_builds_count_too(self):
        seven = "Ran 7 tests in 0.1s\n\nOK\n"
        self.assertEqual(
            self.count([entry("OK", stderr=seven)],
                       [entry("OK", stderr=seven), entry("FAIL", DOCTEST, "", "b")]),
            ("11 passed, 1 failed", 1))

    def test_other_builds_add_only_failures(self):
        good = [entry("OK", stderr="Ran 7 tests in 0.1s\n\nOK\n")]
        self.assertEqual(self.count(good, good), ("7 passed, 0 failed", 0))
        self.assertEqual(self.count(good, [entry("FAIL", DOCTEST)]),
                         ("7 passed, 1 failed", 1))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
