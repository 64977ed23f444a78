"""Manual and completions of a build for another machine, whose programs do
not run here."""

import os
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.environ["SHARDC_SOURCE_ROOT"]
BUILD = os.environ["SHARDC_BUILD_ROOT"]

# This machine, described to the build as one whose programs cannot run here.
CROSS = """\
[binaries]
cpp = {compiler}
ar = 'ar'
strip = 'strip'
pkgconfig = 'pkg-config'
[properties]
needs_exe_wrapper = true
[host_machine]
system = 'linux'
cpu_family = '{machine}'
cpu = '{machine}'
endian = 'little'
"""

# What is made of the program's own words.
MADE = ["man/shardc.1", "man/shardc-diagnostics.7",
        "src/cli/completions/shardc", "src/cli/completions/shardc.fish",
        "src/cli/completions/_shardc"]


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise AssertionError(f"{command}\n{done.stdout}{done.stderr}")
    return done.stdout


class Cross(unittest.TestCase):
    def test_manual_and_completions_need_no_program_of_the_host(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        cross = os.path.join(folder, "cross.ini")
        compiler = os.environ.get("CXX", "c++").split()
        with open(cross, "w", encoding="utf-8") as file:
            file.write(CROSS.format(compiler=compiler,
                                    machine=os.uname().machine))
        build = os.path.join(folder, "build")
        run("meson", "setup", "--cross-file", cross, "-Dtests=false", build,
            ROOT)
        run("ninja", "-C", build, *MADE)
        self.assertFalse(os.path.exists(
            os.path.join(build, "src", "cli", "shardc")))
        for name in MADE:
            with open(os.path.join(build, name), encoding="utf-8") as file:
                made = file.read()
            with open(os.path.join(BUILD, name), encoding="utf-8") as file:
                self.assertEqual(made, file.read(), name)
        # Of all steps only the one that links the program names it.
        steps = run("ninja", "-C", build, "-t", "commands",
                    "all").splitlines()
        naming = [step for step in steps if "src/cli/shardc" in step.split()]
        self.assertEqual(len(naming), 1, naming)
        self.assertIn(" -o src/cli/shardc ", naming[0])


if __name__ == "__main__":
    unittest.main(argv=[__file__])
