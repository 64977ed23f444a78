"""eformer, fjformer and EasyDeL asked again: the names of their modules, the
records, and new cases. SHARDC_CASES is the number of cases of each family."""

import os
import re
import unittest

import environment
import parity_live_test
import records
import reference_answers
import reference_cases
import reference_table
import reference_test

NEW_CASES = int(os.environ.get("SHARDC_CASES", "300"))
SEED = os.environ.get("SHARDC_SEED", "71")
# Rows of which new cases are judged.
ROWS = (os.environ.get("SHARDC_ROWS") or ",".join(reference_table.ROWS)).split(",")


class Live(unittest.TestCase):
    def test_names_are_recorded(self):
        recorded = records.load("reference/names")["modules"]
        names = reference_answers.names()
        wanted = set(recorded)
        if reference_answers.earlier_easydel() is None:
            wanted.remove("easydel.modules.flax_modelling_utils")
        self.assertEqual(names, {name: recorded[name] for name in wanted})
        self.assertEqual(reference_test.missing(names), [])

    def test_records_hold(self):
        if reference_answers.earlier_easydel() is None:
            self.skipTest("no environment `sources`")
        self.assertEqual(
            reference_answers.cases(1, reference_answers.CASES),
            records.load("reference/edges")["cases"])

    def test_new_cases(self):
        families = dict.fromkeys(reference_answers.CASES, NEW_CASES)
        if reference_answers.earlier_easydel() is None:
            for family in ("rotary", "repeat"):
                families[family] = 0
        wrong, counts = reference_cases.differences(
            reference_answers.cases(int(SEED), families))
        print(counts)
        self.assertEqual(wrong[:5], [], len(wrong))

    def test_new_cases_of_every_row(self):
        for operation in ROWS:
            needed = reference_table.NEEDS.get(operation)
            if needed and not environment.is_made(needed):
                print(f"{operation}: no environment `{needed}`")
                continue
            with self.subTest(operation):
                kinds, failed = reference_table.judged(
                    operation, SEED, NEW_CASES)
                print(f"{operation}: {dict(kinds)}", flush=True)
                self.assertEqual(failed[:5], [], len(failed))
                self.assertLess(kinds["refused"] + kinds["refused-alone"],
                                NEW_CASES / 2)

    def test_every_function_of_the_table_has_new_cases(self):
        """Those of eformer's tables have them in parity_live_test.py."""
        with open(os.path.join(records.ROOT, "docs", "parity.md"),
                  encoding="utf-8") as file:
            named = set(re.findall(r"`eval (\w+)", file.read()))
        asked = {reference_table.FUNCTIONS.get(one, one)
                 for one in reference_table.ROWS}
        asked |= {function for function, _ in reference_cases.FAMILIES.values()}
        asked |= set(parity_live_test.FUNCTIONS.values())
        self.assertEqual(named - asked, parity_live_test.ELSEWHERE)

    def test_every_command_of_the_table_has_new_cases(self):
        with open(os.path.join(records.ROOT, "docs", "parity.md"),
                  encoding="utf-8") as file:
            named = reference_table.commands_of(file.read())
        asked = {command for commands in reference_table.ROWS.values()
                 if isinstance(commands, tuple) for command in commands}
        self.assertEqual(named - asked, reference_table.OTHERS)


if __name__ == "__main__":
    unittest.main(warnings="ignore")
