"""The first hour with Hugging Face and serving, on real transformers."""

import unittest

import first_hours


class FirstHour(unittest.TestCase):
    def test_every_command_of_the_guide(self):
        first_hours.check(self, "huggingface",
                          {"small.json": ["transformers_version"]})


if __name__ == "__main__":
    unittest.main()
