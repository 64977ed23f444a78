"""Levanter's code asked again where it puts parameters."""

import unittest

import levanter_mesh_answers
import records


class Levanter(unittest.TestCase):
    def test_specs(self):
        record = records.load("levanter/mesh")
        self.assertEqual(levanter_mesh_answers.asked(), record)
        print(f"{sum(len(case['params']) for case in record['cases'])} specs "
              "of named axes are Levanter's")


if __name__ == "__main__":
    unittest.main()
