"""eformer, fjformer and EasyDeL asked again: the names of their modules, the
records, and new cases. SHARDC_CASES is the number of cases of each family."""

import os
import unittest

import records
import reference_answers
import reference_cases
import reference_test

NEW_CASES = int(os.environ.get("SHARDC_CASES", "300"))


class Live(unittest.TestCase):
    def test_names_are_recorded(self):
        recorded = records.load("reference/names")["modules"]
        names = reference_answers.names()
        self.assertEqual(names, {name: recorded[name] for name in names})
        self.assertEqual(reference_test.missing(names), [])

    def test_records_hold(self):
        if reference_answers.earlier_easydel() is None:
            self.skipTest("no environment `sources`")
        self.assertEqual(
            reference_answers.cases(1, reference_answers.CASES),
            records.load("reference/edges")["cases"])

    def test_new_cases(self):
        seed = int(os.environ.get("SHARDC_SEED", "71"))
        families = dict.fromkeys(reference_answers.CASES, NEW_CASES)
        if reference_answers.earlier_easydel() is None:
            for family in ("rotary", "repeat"):
                families[family] = 0
        wrong, counts = reference_cases.differences(
            reference_answers.cases(seed, families))
        print(counts)
        self.assertEqual(wrong[:5], [], len(wrong))


if __name__ == "__main__":
    unittest.main(warnings="ignore")
