"""Steps measured on one H200 (testdata/published/single-gpu.csv) against the time
and the memory that `shardc cost` expects, and what docs/guides/cost.md states of
them. PyTorch 2.11.0 with CUDA 13.0, transformers 5.17.0: bfloat16 parameters,
gradients and moments, attention by scaled_dot_product_attention, AdamW with
fused=True, gradients set to None after each step. `seconds` is the median of five
steps after three; `allocated` and `reserved` are the allocator's peaks in bytes."""

import csv
import os
import re
import statistics
import unittest

from driver import Case, ROOT, TESTDATA, run

STEPS = os.path.join(TESTDATA, "published", "single-gpu.csv")
CONFIGS = os.path.join(TESTDATA, "configs")
POLICIES = {"none": "everything_saveable", "full": "nothing_saveable"}
STATED = re.compile(
    r"differ by (\d+) % in the median, from (\d+) % too short to (\d+) % too "
    r"long\..*? is expected from (\d+) % below to (\d+) % above; the tensors at "
    r"the peak differ from what it allocates by (\d+) % in the median")


class MeasuredSteps(Case):
    def cost(self, row):
        done = run("cost", "--no-project", "--mesh", "dp:1", "--rules", "auto",
                   "--model", os.path.join(
                       CONFIGS, row["model"] + ".config.json"),
                   "--batch", row["batch"], "--seq", row["seq"], "--profile",
                   "h200-sxm", "--stack", row["stack"], "--loss", row["loss"],
                   "--remat", POLICIES[row["remat"]], "--master-dtype", "none",
                   "--moments-dtype", "bfloat16", "--grad-dtype", "bfloat16",
                   "--format", "json")
        self.assertEqual(done.rc, 0, done.err)
        return done.json()

    def test_the_guide_states_the_errors(self):
        with open(STEPS, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        times, peaks, tensors = [], [], []
        for row in rows:
            value = self.cost(row)
            times.append(value["time"]["expected_s"] / float(row["seconds"]) - 1)
            peak = value["memory"]["peak"]
            peaks.append(peak["expected"] / int(row["reserved"]) - 1)
            tensors.append(
                value["memory"]["total"] / int(row["allocated"]) - 1)
            with self.subTest(row["id"]):
                self.assertGreater(peak["most"], int(row["allocated"]))
        with open(os.path.join(ROOT, "docs", "guides", "cost.md"),
                  encoding="utf-8") as file:
            stated = STATED.search(" ".join(file.read().split()))
        self.assertIsNotNone(stated)
        self.assertEqual(
            [int(one) for one in stated.groups()],
            [round(100 * one) for one in (
                statistics.median(map(abs, times)), -min(times), max(times),
                -min(peaks), max(peaks),
                statistics.median(map(abs, tensors)))])


if __name__ == "__main__":
    unittest.main()
