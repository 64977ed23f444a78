"""The first hour with a JAX model of one's own, on real JAX."""

import unittest

import first_hours


class FirstHour(unittest.TestCase):
    def test_every_command_of_the_guide(self):
        first_hours.check(self, "jax", {"step.program.json.gz": ["traced"]})


if __name__ == "__main__":
    unittest.main()
