"""`meson install` into an empty folder: what is installed, and that it runs."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.environ["SHARDC_SOURCE_ROOT"]
BUILD = os.environ["SHARDC_BUILD_ROOT"]
MANIFEST = os.path.join(ROOT, "testdata", "models",
                        "llama-3-8b.hf.manifest.json")


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True,
                          check=False, **more)
    if done.returncode != 0:
        raise AssertionError(f"{command}\n{done.stdout}{done.stderr}")
    return done.stdout


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        run("meson", "install", "-C", BUILD, "--no-rebuild", "--destdir",
            cls.folder)
        cls.files = {}  # path below the prefix, without lib/ARCH
        for here, _, names in os.walk(cls.folder):
            for name in names:
                path = os.path.join(here, name)
                short = os.path.relpath(path, cls.folder)
                short = re.sub(r"^usr/(local/)?", "", short)
                short = re.sub(r"^lib/[^/]+-linux-[^/]+/", "lib/", short)
                cls.files[short] = path

    def test_files_are_where_a_distribution_expects_them(self):
        expected = [
            "bin/shardc",
            "share/bash-completion/completions/shardc",
            "share/fish/vendor_completions.d/shardc.fish",
            "share/zsh/site-functions/_shardc",
            "share/man/man1/shardc.1",
            "share/man/man7/shardc-diagnostics.7",
            "share/doc/shardc/THIRD-PARTY-NOTICES",
            "share/doc/shardc/shardc.cdx.json",
        ]
        for folder, below in (("rules", ".yaml"), ("profiles", ".yaml"),
                              ("engines", ".yaml"), ("schemas", ".json")):
            for name in os.listdir(os.path.join(ROOT, folder)):
                if name.endswith(below):
                    expected.append(f"share/shardc/{folder}/{name}")
        for name in os.listdir(os.path.join(ROOT, "man")):
            if re.search(r"\.\d$", name):
                expected.append(f"share/man/man{name[-1]}/{name}")
        for path in expected:
            self.assertIn(path, self.files)

    def test_the_installed_program_plans(self):
        with tempfile.TemporaryDirectory() as elsewhere:
            out = run(self.files["bin/shardc"], "plan", "--mesh",
                      "fsdp:8,tp:4", "--rules", "builtin:llama", "--manifest",
                      MANIFEST, cwd=elsewhere)
        self.assertIn('"shardc.plan/v1"', out)


if __name__ == "__main__":
    unittest.main()
