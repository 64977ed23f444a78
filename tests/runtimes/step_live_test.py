"""transformers asked again: every recorded logit is the one that it computes."""

import unittest

import numpy

import records
import step_answers

NEAR = 1e-6


class Steps(unittest.TestCase):
    def test_every_model_computes_what_is_recorded(self):
        record = records.load("transformers/steps")
        answers = step_answers.answers()
        self.assertEqual([a["name"] for a in answers],
                         [case["name"] for case in record["cases"]])
        for case, answer in zip(record["cases"], answers):
            with self.subTest(model=case["name"]):
                self.assertEqual(case["ids"], answer["ids"])
                self.assertLess(abs(case["loss"] - answer["loss"]), NEAR)
                self.assertLess(numpy.abs(
                    numpy.array(case["logits"]) -
                    numpy.array(answer["logits"])).max(), NEAR)
        print(f"{len(answers)} models compute what is recorded")


if __name__ == "__main__":
    unittest.main()
