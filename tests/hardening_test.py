"""What is shipped is hardened: read out of the program that was built, and out
of its library, because a static program contains the C library's functions too.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import unittest

BUILD = os.environ["SHARDC_BUILD_ROOT"]
BIN = os.environ["SHARDC_BIN"]
FORTIFIED = re.compile(r"__(mem|str|sn?printf|vsn)\w*_chk$")


def options():
    """Those that the build was configured with, by name."""
    path = os.path.join(BUILD, "meson-info", "intro-buildoptions.json")
    with open(path, encoding="utf-8") as file:
        return {option["name"]: option["value"] for option in json.load(file)}


def readelf(*what):
    return subprocess.run(["readelf", "-W", *what, BIN], capture_output=True,
                          text=True, check=True).stdout


def symbols_called(archive):
    """The functions that the objects of an archive call in other libraries."""
    done = subprocess.run(["nm", "--undefined-only", "--format=just-symbols",
                           archive], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def is_hardened():
    """The default of meson.build."""
    asked = options()["hardening"]
    return asked == "on" or (asked == "auto"
                             and options()["buildtype"] == "release")


@unittest.skipUnless(shutil.which("readelf") and shutil.which("nm"),
                     "no readelf or nm")
class Hardening(unittest.TestCase):
    def test_the_program_is_position_independent(self):
        self.assertRegex(readelf("-h"), r"Type: +DYN")
        self.assertRegex(readelf("-d"), r"FLAGS_1.*\bPIE\b")

    def test_addresses_of_functions_cannot_be_overwritten(self):
        self.assertIn("GNU_RELRO", readelf("-l"))
        self.assertRegex(readelf("-d"), r"FLAGS_1.*\bNOW\b")

    def test_no_memory_is_both_written_and_run(self):
        for line in readelf("-l").splitlines():
            if "GNU_STACK" in line or "LOAD" in line:
                self.assertNotIn("RWE", line)
        self.assertRegex(readelf("-l"), r"GNU_STACK .* RW ")

    @unittest.skipUnless(is_hardened(), "not a build that is shipped")
    def test_stacks_copies_and_indices_are_checked(self):
        called = symbols_called(os.path.join(BUILD, "src", "libshardc.a"))
        self.assertIn("__stack_chk_fail", called)
        # Fortified: which functions are checked depends on what is inlined.
        self.assertTrue([name for name in called if FORTIFIED.match(name)])
        commands = os.path.join(BUILD, "src", "cli", "libshardc_cli.a")
        self.assertTrue([name for name in symbols_called(commands)
                         if "__glibcxx_assert_fail" in name])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
