"""Levanter's code asked again where it puts parameters."""

import unittest

import levanter_answers
import records


class Levanter(unittest.TestCase):
    def test_specs(self):
        record = records.load("levanter/trainer")
        self.assertEqual(levanter_answers.asked(), record)
        print(f"{sum(len(case['params']) for case in record['cases'])} specs "
              "of named axes are Levanter's")


if __name__ == "__main__":
    unittest.main()
