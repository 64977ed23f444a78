"""transformers runs again what shardc exports: two processes compute the logits
and gradients that one device computes, as in the record."""

import unittest

import records
import tp_logits_answers


class Logits(unittest.TestCase):
    def test_two_processes_compute_what_one_device_does(self):
        record = records.load("transformers/tp_logits")
        cases, unrun = tp_logits_answers.answers()
        self.assertEqual(set(unrun), set(record["not_run"]))
        wanted = {case["model_type"]: case for case in record["cases"]}
        plans = 0
        for case in cases:
            for name, plan in case["plans"].items():
                with self.subTest(model=case["model_type"], plan=name):
                    kept = wanted[case["model_type"]]["plans"][name]
                    self.assertEqual(plan["exported"], kept["exported"])
                    self.assertEqual("error" in plan, "error" in kept)
                    self.assertEqual(plan.get("sharded"), kept.get("sharded"))
                    self.assertLess(plan.get("logits", 0),
                                    tp_logits_answers.NEAR)
                    plans += 1
        print(f"{plans} plans of {len(cases)} architectures: the logits of "
              "one device")


if __name__ == "__main__":
    unittest.main()
