"""transformers gives each device the elements of a packed weight that the record
has, which `split` is compared with."""

import unittest

import packed_answers
import records


class Packed(unittest.TestCase):
    def test_each_device_gets_the_recorded_elements(self):
        ((name, made),) = packed_answers.record()
        self.assertEqual(made["cases"], records.load(name)["cases"])


if __name__ == "__main__":
    unittest.main()
