"""Published training runs against the memory that `shardc cost` expects and the
meshes that `shardc search` finds: every run fits its device, and with its policy,
micro-batches and ZeRO stage no run is faster than what the search finds.

SHARDC_EVERY=1 searches for all runs, and not for every fortieth; it
prints how many published meshes are within 10 % of the fastest.
"""

import json
import tempfile
import unittest

from driver import Case, one_in, run
from published_steps import Steps, offloads, on_device

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

    def share(self, row, *more):
        """The expected part of the device's memory."""
        memory = self.read("cost", row, *more)["memory"]
        return memory["peak"]["expected"] / memory["capacity"]

    def test_every_published_run_fits_its_device(self):
        shares = []
        for row in self.steps.rows:
            own, _ = on_device(row)
            with self.subTest(row["id"]):
                shares.append(self.share(own))
                self.assertLessEqual(shares[-1], MOST_MEMORY)
        self.assertGreater(len(shares), 200)

    def test_rows_with_settings_of_their_own_have_a_reason(self):
        changed = [row["id"] for row in self.steps.rows if on_device(row)[1]]
        self.assertEqual(len(changed), 7)

    def test_runs_that_offload_do_not_fit_with_all_products_on_the_device(self):
        row = next(one for one in self.steps.rows if offloads(one))
        self.assertGreater(self.share({**row, "model": "not-offloaded"}), 3)

    def test_no_published_run_is_faster_than_what_is_found(self):
        every = one_in(40)
        gaps = []
        for row in self.steps.rows[::every]:
            row, _ = on_device(row)
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
