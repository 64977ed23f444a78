"""What every command pays before its first line runs: counted, not timed.

The loader writes each relocated word, and a page of memory is copied for the first
word in it. In a virtual machine an instruction that queries the processor takes as
long as a thousand relocations.
"""

import os
import re
import shutil
import subprocess
import sys
import unittest

BIN = os.environ["SHARDC_BIN"]
MOST_RELOCATIONS = 15_000  # 12,300 with g++ 12; with all of libcrypto 28,900


def readelf(*what):
    return subprocess.run(["readelf", "-W", *what, BIN], capture_output=True,
                          text=True, check=True).stdout


@unittest.skipUnless(shutil.which("readelf"), "no readelf")
class Start(unittest.TestCase):
    def setUp(self):
        self.symbols = readelf("--syms")
        if "__asan" in self.symbols or "__tsan" in self.symbols:
            self.skipTest("a sanitizer adds its own")

    def test_few_words_are_relocated(self):
        count = re.search(r"\(RELACOUNT\) +(\d+)", readelf("-d"))
        if count is None:
            self.skipTest("no count of relocations")
        self.assertLess(int(count.group(1)), MOST_RELOCATIONS)

    def test_openssl_gives_single_digests_alone(self):
        self.assertFalse("EVP_MD_fetch" in self.symbols)

    def test_the_processor_is_not_queried_by_the_compiler_s_library(self):
        self.assertFalse("__cpu_indicator_init" in self.symbols)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
