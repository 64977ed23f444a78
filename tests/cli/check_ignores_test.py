"""`shardc check`: lines of many hashes are read once. What comments in rules files
ignore is in testdata/golden/check/ignores.txt."""

import unittest

from check_case import Folder


class Ignores(Folder):
    def test_lines_of_many_hashes_are_read_once(self):
        """A million of them takes less than a second, and not hours."""
        gone = "- {match: gone, spec: []}  # shardc: ingore[SHD105]"
        for text in ("#" * 1000000, "# " * 500000,
                     f"  note: '{' #' * 500000}'"):
            self.write("r.yaml", "version: 1\nrules:\n- match: kernel\n"
                       f"  spec: []\n{text}\n{gone}\n"
                       "policy: {unmatched: replicate}\n")
            self.assertLessEqual({"SHD105", "SHD190"}, set(self.codes()))


if __name__ == "__main__":
    unittest.main()
