"""XLA asked again what a training step holds: the smaller cases of the record
of `cost`."""

import unittest

import cost_answers
import records

FEW = 4


class Cost(unittest.TestCase):
    def test_a_few_of_the_record(self):
        record = records.load("jax/cost")
        self.assertEqual(record["versions"],
                         records.versions(*record["versions"]))
        self.assertEqual(record["sizes"], cost_answers.SIZES)
        for case in record["cases"][1:1 + FEW]:
            with self.subTest(case=case):
                asked = {key: case[key] for key in
                         ("mesh", "policy", "optimizer", "rules", "hidden",
                          "dtype", "batch", "length")}
                self.assertEqual(case, cost_answers.answered(asked))


if __name__ == "__main__":
    unittest.main()
