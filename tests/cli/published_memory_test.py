"""The peak of memory that `shardc cost` expects against published peaks of
training runs, and against programs that XLA compiled for TPU v5e."""

import csv
import json
import os
import shlex
import statistics
import tempfile
import unittest

from driver import TESTDATA, Case, run
from published_models import Models

PEAKS = os.path.join(TESTDATA, "published", "memory.csv")


class Published(Case):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.models = Models(cls.folder.name)
        with open(PEAKS, encoding="utf-8") as file:
            cls.rows = list(csv.DictReader(file))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def peak(self, row, *more):
        done = run("cost", "--no-project", "--rules", "builtin:llama/hf",
                   *self.models.arguments({**row, "rope": "1"}), "--mesh",
                   row["mesh"], *shlex.split(row["flags"]), *more, "--format",
                   "json")
        self.assertIn(done.rc, (0, 1), row["id"] + done.err)
        return json.loads(done.out)["memory"]

    def test_the_peaks_of_published_runs(self):
        errors = []
        for row in self.rows:
            peak = self.peak(row)["peak"]
            real = float(row["gib"]) * 2 ** 30
            error = peak["expected"] / real - 1
            errors.append(abs(error))
            with self.subTest(row["id"], expected=peak["expected"] / 2 ** 30):
                self.assertLessEqual(abs(error), float(row["within"]))
                self.assertLessEqual(peak["least"], real)
                self.assertGreaterEqual(peak["most"], real)
        self.assertGreater(len(errors), 25)
        self.assertLess(statistics.median(errors), 0.05)

    def test_a_step_that_may_not_fit(self):
        row = next(one for one in self.rows if one["id"] == "tt-8b-8-bs1")
        peak = self.peak(row)["peak"]
        verdicts = [(peak["most"], True, 0), (peak["most"] - 1, False, 1),
                    (peak["least"] - 1, False, 1)]
        for memory, fits, status in verdicts:
            with self.subTest(memory=memory):
                self.assertIs(
                    self.peak(row, "--memory", str(memory))["fits"], fits)
                done = run("cost", "--no-project", "--rules",
                           "builtin:llama/hf", *self.models.arguments(
                               {**row, "rope": "1"}), "--mesh", row["mesh"],
                           *shlex.split(row["flags"]), "--memory",
                           str(memory))
                self.assertEqual(done.rc, status)
                self.assertIs("may not fit" in done.out,
                              peak["least"] <= memory < peak["most"])


if __name__ == "__main__":
    unittest.main()
