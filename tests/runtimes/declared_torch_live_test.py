"""The libraries run again: models declare what the record declared/torch has."""

import unittest

import declared_torch_answers
import records


class Declared(unittest.TestCase):
    def test_the_record_is_made_again(self):
        for name, made in declared_torch_answers.record():
            self.assertEqual(made["cases"], records.load(name)["cases"])


if __name__ == "__main__":
    unittest.main()
