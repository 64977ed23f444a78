"""PyTorch asked again: what DTensor puts on each rank."""

import random
import unittest

import torch

import dtensor_answers
import records

AT_ONCE = 40  # also by the mode that runs all ranks together, which is slow


class DTensor(unittest.TestCase):
    def load(self, name, count):
        record = records.load(name)
        self.assertEqual(record["versions"],
                         records.versions(*record["versions"]))
        self.assertEqual(len(record["cases"]), count)
        return record["cases"]

    def test_recorded_shardings(self):
        cases = self.load("dtensor/shardings", 1000)
        for case in cases:
            now = dtensor_answers.answer(case)
            self.assertEqual(now, {key: case[key] for key in now}, case)
        print(f"dtensor/shardings: {len(cases)} recorded answers are "
              "DTensor's")

    def test_recorded_placements(self):
        cases = self.load("dtensor/placements", dtensor_answers.FREE_CASES)
        for case, now in zip(cases, dtensor_answers.free_cases(),
                             strict=True):
            self.assertEqual(now, case)
        print(f"dtensor/placements: {len(cases)} recorded answers are "
              "DTensor's")

    def test_all_ranks_at_once_hold_the_same(self):
        rng = random.Random(12)
        for _ in range(AT_ONCE):
            asked = dtensor_answers.free_case(rng)
            one_by_one = dtensor_answers.local_data(*asked)
            at_once = dtensor_answers.local_data_at_once(*asked)
            for one, other in zip(one_by_one, at_once, strict=True):
                self.assertTrue(torch.equal(one, other), asked)
        print(f"{AT_ONCE} new cases: all ranks at once hold the same")


if __name__ == "__main__":
    unittest.main()
