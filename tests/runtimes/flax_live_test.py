"""The last Flax classes of transformers asked again, a tenth of the small
trees and of the large ones."""

import unittest

import flax_answers
import records

EVERY = 10


class Flax(unittest.TestCase):
    def test_trees(self):
        compared = 0
        for name in ("flax/small", "flax/known"):
            record = records.load(name)
            self.assertEqual(record["versions"], records.versions(
                *record["versions"]))
            for case in record["cases"][::EVERY]:
                with self.subTest(model=case["model"]):
                    self.assertEqual(flax_answers.answered(
                        case["model"], case["config"]), case)
                    compared += 1
        print(f"{compared} Flax trees are those of the classes")

    def test_plans(self):
        cases = list(flax_answers.plans())
        self.assertEqual(cases,
                         records.load("transformers/plans-4.57")["cases"])
        print(f"{len(cases)} tensor-parallel plans are those of the classes")


if __name__ == "__main__":
    unittest.main()
