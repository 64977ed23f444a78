"""The first hour of a new user, from an empty folder (tests/trials)."""

import os
import sys
import unittest

from driver import BIN, ROOT

sys.path.insert(0, os.path.join(ROOT, "tests", "trials"))

import first_hour  # noqa: E402


class Trials(unittest.TestCase):
    def test_what_is_printed_leads_on(self):
        """In every trial, without a wrong lead, with at most one guide."""
        rows, failures = first_hour.run_all(
            BIN, os.path.join(ROOT, "python"))
        self.assertEqual(failures, [])
        self.assertEqual(len(rows), len(first_hour.TRIALS))
        for title, steps, _, _ in rows:
            self.assertGreater(steps, 3, title)


if __name__ == "__main__":
    unittest.main()
