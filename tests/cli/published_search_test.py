"""`shardc search` against published training runs: every run fits its device,
and with its policy, micro-batches and ZeRO stage no run is faster than what the
search finds.

SHARDC_SEARCH_EVERY=1 searches for all runs, and not for every fortieth; it
prints how many published meshes are within 10 % of the fastest.
"""

import json
import os
import tempfile
import unittest

from driver import Case, run
from published_steps import Steps

# The part of a device's memory that a published run may be expected to take.
MOST_MEMORY = 1.07
# The fraction by which two sums of the same seconds may differ.
ROUNDING = 1e-9


class PublishedSearch(Case):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.steps = Steps(cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def read(self, command, row, *more):
        done = run(command, *self.steps.model(row), *self.steps.arguments(row),
                   *more, "--format", "json")
        self.assertIn(done.rc, (0, 1), row["id"] + done.err)
        return json.loads(done.out)

    def test_every_published_run_fits_its_device(self):
        for row in self.steps.rows:
            memory = self.read("cost", row)["memory"]
            with self.subTest(row["id"]):
                self.assertLessEqual(memory["peak"]["expected"],
                                     MOST_MEMORY * memory["capacity"])

    def test_no_published_run_is_faster_than_what_is_found(self):
        every = int(os.environ.get("SHARDC_SEARCH_EVERY", "40"))
        gaps = []
        for row in self.steps.rows[::every]:
            cost = self.read("cost", row)
            policy = [] if "--zero" in self.steps.arguments(row) else [
                "--zero", "0"]
            found = self.read("search", row, *policy, "--unmeasured", "--prove",
                              "0")
            with self.subTest(row["id"]):
                if cost["memory"].get("fits"):
                    self.assertIsNotNone(found["winner"])
                if found["winner"] is None or found["may_fit"]:
                    continue
                if not cost["memory"].get("fits"):
                    continue
                expected = cost["time"]["expected_s"]
                fastest = found["fastest"]["expected_s"]
                self.assertLessEqual(fastest, expected * (1 + ROUNDING))
                gaps.append(expected / fastest - 1)
        self.assertGreater(len(gaps), 0)
        if every == 1:
            close = sum(gap <= 0.10 for gap in gaps)
            print(f"{close} of {len(gaps)} published meshes are within 10 %")


if __name__ == "__main__":
    unittest.main()
