"""The libraries run again: models declare what the record declared/jax has."""

import unittest

import declared_jax_answers
import records


class Declared(unittest.TestCase):
    def test_the_record_is_made_again(self):
        for name, made in declared_jax_answers.record():
            self.assertEqual(made["cases"], records.load(name)["cases"])


if __name__ == "__main__":
    unittest.main()
