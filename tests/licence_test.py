"""Every file has a licence and a copyright holder, as `reuse lint` sees it.

LICENSE is the text that Debian has. `reuse lint` wants it in a folder of its own,
where it is copied; skipped where `reuse` is not installed.
"""

import os
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.environ.get(
    "SHARDC_SOURCE_ROOT",
    os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
TEXT = "/usr/share/common-licenses/Apache-2.0"


def kept_files():
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others",
         "--exclude-standard"], capture_output=True, check=False)
    return [name for name in listed.stdout.decode().split("\0")
            if name and os.path.isfile(os.path.join(ROOT, name))]


class Licence(unittest.TestCase):
    @unittest.skipUnless(shutil.which("reuse"), "reuse is not installed")
    @unittest.skipUnless(os.path.exists(TEXT), "the system has no licence text")
    def test_every_file_has_a_licence(self):
        names = kept_files()
        if not names:
            self.skipTest("not a git checkout")
        with tempfile.TemporaryDirectory() as folder:
            for name in names:
                copy = os.path.join(folder, name)
                os.makedirs(os.path.dirname(copy), exist_ok=True)
                shutil.copyfile(os.path.join(ROOT, name), copy)
            os.mkdir(os.path.join(folder, "LICENSES"))
            shutil.copyfile(TEXT, os.path.join(
                folder, "LICENSES", "Apache-2.0.txt"))
            linted = subprocess.run(
                ["reuse", "--root", folder, "lint"], capture_output=True,
                text=True, check=False)
        self.assertEqual(0, linted.returncode, linted.stdout + linted.stderr)

    @unittest.skipUnless(os.path.exists(TEXT), "the system has no licence text")
    def test_the_licence_is_its_full_text(self):
        texts = []
        for path in (TEXT, os.path.join(ROOT, "LICENSE")):
            with open(path, encoding="utf-8") as text:
                texts.append(text.read())
        self.assertEqual(*texts)

    def test_the_packages_name_the_same_licence(self):
        for name in ("REUSE.toml", "pyproject.toml", "meson.build",
                     "debian/copyright", "editors/vscode/package.json"):
            with self.subTest(name), open(
                    os.path.join(ROOT, name), encoding="utf-8") as text:
                self.assertIn("Apache-2.0", text.read())


if __name__ == "__main__":
    unittest.main()
