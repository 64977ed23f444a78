"""Two builds in folders of different names and depths are the same, byte by
byte: no path, date or order of files of this machine is in them.

reproducible.py         a few objects and all that is generated: seconds
reproducible.py --all   the installed tree, program and library: minutes

Both build without ccache, which would give one object twice.
"""

import filecmp
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.environ.get(
    "SHARDC_SOURCE_ROOT",
    os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

# With an assertion, that is with the name of its own file, and one without.
OBJECTS = ["src/libshardc.a.p/exec_machine_buffer.cc.o",
           "src/libshardc.a.p/source_text_order.cc.o"]
# What Python makes: manual, completions, and sources out of packs and schemas.
GENERATED = ["man/shardc.1", "man/shardc-diagnostics.7",
             "src/cli/completions/shardc", "src/cli/completions/_shardc",
             "src/cli/completions/shardc.fish"]
FOLDERS = ["a", os.path.join("deeper", "than", "the other")]


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          env=dict(os.environ, CCACHE_DISABLE="1"))
    if done.returncode != 0:
        raise AssertionError(f"{command}\n{done.stdout}{done.stderr}")


def files(folder):
    return sorted(os.path.relpath(os.path.join(here, name), folder)
                  for here, _, names in os.walk(folder) for name in names)


class Reproducible(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def build(self, name, *targets):
        folder = os.path.join(self.folder, name)
        run("meson", "setup", "--buildtype=release", "-Dtests=false", folder,
            ROOT)
        run("ninja", "-C", folder, *targets)
        return folder

    def test_objects_and_what_is_generated(self):
        built = [self.build(name, *OBJECTS, *GENERATED) for name in FOLDERS]
        for name in OBJECTS + GENERATED:
            with self.subTest(name):
                self.assertTrue(filecmp.cmp(
                    *(os.path.join(folder, name) for folder in built),
                    shallow=False))

    @unittest.skipUnless("--all" in sys.argv, "--all builds everything twice")
    def test_the_installed_tree(self):
        trees = []
        for name in FOLDERS:
            folder = self.build(name)
            run("meson", "install", "-C", folder, "--no-rebuild", "--destdir",
                os.path.join(folder, "tree"))
            trees.append(os.path.join(folder, "tree"))
        self.assertEqual(files(trees[0]), files(trees[1]))
        self.assertGreater(len(files(trees[0])), 30)
        for name in files(trees[0]):
            with self.subTest(name):
                self.assertTrue(filecmp.cmp(
                    *(os.path.join(tree, name) for tree in trees),
                    shallow=False))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
