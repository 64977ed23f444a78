"""XLA asked again how it partitions steps under shardc's plans."""

import unittest

import records
import xla_answers
import xla_cases
import xla_siblings_answers

NEAR = 1e-10


class Xla(unittest.TestCase):
    def test_it_sends_and_computes_what_is_recorded(self):
        record = records.load("xla/steps")
        self.assertEqual([case["name"] for case in record["cases"]],
                         [case["name"] for case in xla_cases.CASES])
        for case, asked in zip(record["cases"], xla_cases.CASES):
            with self.subTest(case=case["name"]):
                answer = xla_answers.answer(asked)
                for key in ("partitioned", "rewritten"):
                    self.assertEqual(case[key], answer[key])
                self.near(case["computed"], answer["computed"])

    def test_it_sends_in_siblings_what_is_recorded(self):
        for case in records.load("xla/siblings")["cases"]:
            with self.subTest(model=case["model"], mesh=case["mesh"],
                              mode=case["mode"]):
                self.assertEqual(case, xla_siblings_answers.answer(
                    case["model"], case["mesh"], case["mode"],
                    case.get("axes", {})))

    def near(self, want, got):
        self.assertAlmostEqual(want["loss"], got["loss"], delta=NEAR)
        for name, numbers in want["gradients"].items():
            for a, b in zip(numbers, got["gradients"][name]):
                self.assertAlmostEqual(a, b, delta=NEAR)


if __name__ == "__main__":
    unittest.main()
