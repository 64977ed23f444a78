"""transformers loads saved checkpoints by the plans that shardc exports for the
names in their files, and two processes compute the logits of one."""

import unittest

import records
import tp_checkpoints_answers


class Checkpoints(unittest.TestCase):
    def test_two_processes_compute_what_one_does(self):
        for case in records.load("transformers/tp_checkpoints")["cases"]:
            with self.subTest(model=case["model_type"]):
                made = tp_checkpoints_answers.answer_of(case["model_type"])
                self.assertEqual(made["exported"], case["exported"])
                self.assertEqual(made.get("sharded"), case.get("sharded"))
                self.assertLess(made.get("logits", 0),
                                tp_checkpoints_answers.NEAR)


if __name__ == "__main__":
    unittest.main()
