"""shardc, the program, judged by what other systems answered."""

import unittest

import records
import shardc_answers
import slices

EVERY = 20  # of the recorded shardings; the unit test takes all


class Shardings(unittest.TestCase):
    def test_split_gives_each_device_what_jax_gives_it(self):
        cases = records.load("jax/shardings")["cases"]
        self.assertEqual(len(cases), 1000)
        for case in cases[::EVERY]:
            with self.subTest(mesh=case["mesh"], spec=case["spec"]):
                (held,) = shardc_answers.local_tensors(case["mesh"], [case])
                self.assertEqual(slices.disagreements(case, case, held), [])

    def test_another_slice_would_be_seen(self):
        case = next(case for case in records.load("jax/shardings")["cases"]
                    if case["offsets"][0] != case["offsets"][-1])
        (held,) = shardc_answers.local_tensors(case["mesh"], [case])
        held[0] = held[-1]
        self.assertEqual(slices.disagreements(case, case, held), [0])


if __name__ == "__main__":
    unittest.main()
