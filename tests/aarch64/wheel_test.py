"""A wheel for 64-bit Arm as a user gets it, in an emulator.

Usage: wheel_test.py FOLDER ROOT, as `tests/bootstrap aarch64-wheel` calls it.
ROOT holds Debian's Python for that machine (root.py). Its pip installs the
wheel, and the package plans a model with the program that was installed.

The emulator runs one process; what that one starts is started by the system of
this machine, which cannot run it. So the program that the package starts is a
script that starts the emulator again, in the place where pip put the program.
"""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
MANIFEST = os.path.join(ROOT, "testdata", "models",
                        "llama-3-8b.hf.manifest.json")
TAGS = ["manylinux2014_aarch64", "manylinux_2_17_aarch64",
        "musllinux_1_1_aarch64"]
PLAN = """
import platform, shardc
assert platform.machine() == "aarch64"
plan = shardc.compile(mesh="dp:2,fsdp:8,tp:4", rules="builtin:llama",
                      manifest={manifest!r})
print(len(plan), plan["lm_head.weight"].shard_shape)
"""


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        [name] = [name for name in os.listdir(FOLDER)
                  if name.endswith("_aarch64.whl")]
        cls.wheel = os.path.join(FOLDER, name)
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.emulator = [shutil.which("qemu-aarch64-static"), "-L", ARM_ROOT]
        # pip is in an archive from which Debian's virtual environments get it.
        wheels = os.path.join(ARM_ROOT, "usr", "share", "python-wheels")
        [pip] = [name for name in os.listdir(wheels)
                 if name.startswith("pip-")]
        cls.run_python(os.path.join(wheels, pip, "pip"), "install", "--quiet",
                       "--no-index", "--no-cache-dir", "--prefix", cls.folder,
                       cls.wheel)
        # Debian's pip installs below PREFIX/local, others below PREFIX.
        places = [os.path.join(cls.folder, *local, "bin", "shardc")
                  for local in ([], ["local"])]
        [cls.program] = filter(os.path.exists, places)

    @classmethod
    def run_python(cls, *arguments, **env):
        python = os.path.join(ARM_ROOT, "usr", "bin", "python3.11")
        return cls.output([*cls.emulator, python, *arguments], **env)

    @staticmethod
    def output(command, **env):
        done = subprocess.run(command, capture_output=True, text=True,
                              check=False, env=dict(os.environ, **env))
        if done.returncode != 0:
            raise AssertionError(f"{command}\n{done.stdout}{done.stderr}")
        return done.stdout

    def test_the_tag_names_the_machine_and_what_it_needs(self):
        tag = os.path.basename(self.wheel)[:-len(".whl")].split("-")[-3:]
        self.assertEqual(tag, ["py3", "none", ".".join(TAGS)])
        with zipfile.ZipFile(self.wheel) as archive:
            [name] = [name for name in archive.namelist()
                      if name.endswith(".dist-info/WHEEL")]
            said = archive.read(name).decode()
        for tag in TAGS:
            self.assertIn(f"Tag: py3-none-{tag}\n", said)

    def test_the_program_loads_no_library(self):
        read = self.output(["aarch64-linux-gnu-readelf", "-dlW", self.program])
        self.assertNotIn("NEEDED", read)
        self.assertNotIn("INTERP", read)

    def test_the_program_and_the_package_plan(self):
        plan = self.output([*self.emulator, self.program, "plan", "--mesh",
                            "dp:2,fsdp:8,tp:4", "--rules", "builtin:llama",
                            "--manifest", MANIFEST])
        self.assertIn("shardc.plan/v1", plan)
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "shardc")
            with open(script, "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\nexec {' '.join(self.emulator)} "
                           f"{self.program} \"$@\"\n")
            os.chmod(script, stat.S_IRWXU)
            packages = self.output(["find", self.folder, "-name", "shardc",
                                    "-path", "*-packages*", "-prune"])
            said = self.run_python(
                "-c", PLAN.format(manifest=MANIFEST),
                PYTHONPATH=os.path.dirname(packages.strip()),
                PATH=folder, SHARDC=script)
        self.assertEqual(said, "291 (32064, 512)\n")


if __name__ == "__main__":
    FOLDER, ARM_ROOT = map(os.path.abspath, sys.argv[1:3])
    del sys.argv[1:3]
    unittest.main()
