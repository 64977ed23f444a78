"""A wheel and a source distribution as a user gets them.

Usage: wheel_test.py FOLDER, as `tests/bootstrap wheel` calls it: the wheel is
installed into a fresh environment, without a compiler or a network, and used
there. Its size and the time that it takes to import are printed.
"""

import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
MANIFEST = os.path.join(ROOT, "testdata", "models",
                        "llama-3-8b.hf.manifest.json")
FRAMEWORKS = ("jax", "torch", "flax", "numpy")
EXAMPLE = """
import shardc
plan = shardc.compile(mesh="dp:2,fsdp:8,tp:4", rules="builtin:llama",
                      manifest={manifest!r})
print(len(plan), plan["lm_head.weight"].shard_shape)
"""


def only(folder, ending):
    names = [name for name in os.listdir(folder) if name.endswith(ending)]
    if len(names) != 1:
        raise AssertionError(f"{folder} has not one *{ending}: {names}")
    return os.path.join(folder, names[0])


def run(*command, **more):
    # No compiler, no other Python's packages.
    done = subprocess.run(command, capture_output=True, text=True,
                          check=False, env={"PATH": more.pop("path", "")},
                          **more)
    if done.returncode != 0:
        raise AssertionError(f"{command}\n{done.stdout}{done.stderr}")
    return done.stdout


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.wheel = only(FOLDER, f"_{os.uname().machine}.whl")
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.bin = os.path.join(folder.name, "bin")
        run(sys.executable, "-m", "venv", folder.name)
        run(os.path.join(cls.bin, "pip"), "install", "--quiet", "--no-index",
            "--disable-pip-version-check", cls.wheel)
        cls.python = os.path.join(cls.bin, "python")

    def test_the_program_loads_no_library(self):
        program = os.path.join(self.bin, "shardc")
        with open(program, "rb") as file:
            self.assertEqual(file.read(4), b"\x7fELF")
        read = run("readelf", "-dlW", program, path="/usr/bin")
        self.assertNotIn("NEEDED", read)
        self.assertNotIn("INTERP", read)

    def test_the_tag_names_every_linux(self):
        tag = os.path.basename(self.wheel)[:-len(".whl")].split("-")[-1]
        machine = os.uname().machine
        self.assertEqual(tag, f"manylinux2014_{machine}."
                         f"manylinux_2_17_{machine}.musllinux_1_1_{machine}")
        # Systems with these tags have Linux 3.10 or newer.
        note = run("readelf", "-n", os.path.join(self.bin, "shardc"),
                   path="/usr/bin")
        oldest = re.search(r"OS: Linux, ABI: (\d+)\.(\d+)", note)
        self.assertLessEqual((int(oldest[1]), int(oldest[2])), (3, 10), note)

    def test_the_program_and_the_package(self):
        version = run("shardc", "--version", path=self.bin)
        self.assertEqual(version, run(self.python, "-m", "shardc",
                                      "--version"))
        self.assertEqual(
            version.split()[-1],
            run(self.python, "-c",
                "import importlib.metadata as m; print(m.version('shardc'))"
                ).strip())
        plan = run("shardc", "plan", "--mesh", "dp:2,fsdp:8,tp:4", "--rules",
                   "builtin:llama", "--manifest", MANIFEST, path=self.bin)
        self.assertIn("shardc.plan/v1", plan)
        self.assertEqual(
            run(self.python, "-c", EXAMPLE.format(manifest=MANIFEST)),
            "291 (32064, 512)\n")

    def test_schemas_and_packs_are_inside(self):
        self.assertIn("$schema", run("shardc", "schema", "plan",
                                     path=self.bin))
        self.assertIn("llama", run("shardc", "show", "rules", path=self.bin))

    def test_libraries_are_listed_with_their_licences(self):
        listed = run("shardc", "--version", "--libraries", path=self.bin)
        folder = os.path.join(os.path.dirname(self.bin), "share", "doc",
                              "shardc")
        with open(os.path.join(folder, "THIRD-PARTY-NOTICES"),
                  encoding="utf-8") as file:
            self.assertIn(listed.partition("\n")[2], file.read())
        with open(os.path.join(folder, "shardc.cdx.json"),
                  encoding="utf-8") as file:
            names = [one["name"] for one in json.load(file)["components"]]
        self.assertEqual(names, [line.split()[0]
                                 for line in listed.splitlines()[1:]])

    def test_the_licence_is_in_the_metadata(self):
        with zipfile.ZipFile(self.wheel) as archive:
            names = archive.namelist()
            [name] = [one for one in names
                      if one.endswith(".dist-info/METADATA")]
            metadata = archive.read(name).decode()
        self.assertIn("\nLicense-Expression: Apache-2.0\n", metadata)
        self.assertTrue(any(one.endswith(".dist-info/licenses/LICENSE")
                            for one in names))

    def test_importing_loads_no_framework(self):
        said = run(self.python, "-c",
                   "import sys, shardc\n"
                   f"print([m for m in {FRAMEWORKS} if m in sys.modules])")
        self.assertEqual(said, "[]\n")
        seconds = run(self.python, "-c", "import time\nfrom_here = "
                      "time.perf_counter()\nimport shardc\n"
                      "print(time.perf_counter() - from_here)")
        print(f"import shardc: {1000 * float(seconds):.0f} ms")

    def test_types_are_declared(self):
        with zipfile.ZipFile(self.wheel) as archive:
            names = archive.namelist()
        self.assertTrue(any(name.endswith("shardc/py.typed")
                            for name in names))
        for name in os.listdir(os.path.join(ROOT, "python", "shardc")):
            if name.endswith(".py"):
                self.assertTrue(any(path.endswith("/shardc/" + name) or
                                    path == "shardc/" + name
                                    for path in names), name)
        size = os.path.getsize(self.wheel)
        print(f"{os.path.basename(self.wheel)}: {size / 1e6:.1f} MB")

    def test_the_source_distribution_is_what_is_committed(self):
        with tarfile.open(only(FOLDER, ".tar.gz")) as archive:
            names = {name.partition("/")[2] for name in archive.getnames()}
        for name in ("meson.build", "pyproject.toml", "src/cli/main.cc",
                     "rules/llama.hf.yaml", "python/shardc/plan.py"):
            self.assertIn(name, names)
        self.assertFalse(any("build" in name.split("/")[0].split("-")
                             for name in names))


if __name__ == "__main__":
    FOLDER = sys.argv.pop(1)
    unittest.main()
