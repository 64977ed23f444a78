"""The extension of editors/vscode, its calls of VS Code answered by a stand-in;
skipped where there is no `node`."""

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import unittest

import driver

FOLDER = os.path.join(driver.ROOT, "editors", "vscode")


class VsCode(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        done = subprocess.run(
            ["node", os.path.join(FOLDER, "test", "drive.js")], timeout=60,
            check=False, capture_output=True, text=True,
            env={**os.environ, "SHARDC_BIN": driver.BIN})
        if done.returncode != 0 or done.stderr:
            raise AssertionError(done.stdout + done.stderr)
        cls.told = json.loads(done.stdout)
        with open(os.path.join(FOLDER, "package.json"),
                  encoding="utf-8") as file:
            cls.package = json.load(file)

    def test_it_starts_restarts_and_stops(self):
        self.assertEqual(self.told["server"],
                         ["shardc", "shardc", ["lsp", "--stdio"]])
        self.assertTrue(self.told["answer"])
        self.assertEqual({one["language"] for one in self.told["languages"]},
                         {"yaml"})
        runs = ["starting", "running", "stopped"]
        self.assertEqual(self.told["events"],
                         # At first, twice by hand; one that cannot be started;
                         # and again.
                         runs * 3 + ["starting"] + runs)

    def test_what_cannot_be_started_is_reported(self):
        (error,) = self.told["errors"]
        self.assertRegex(error, r"cannot start `/nowhere/shardc`: .*ENOENT.*"
                         r"set `shardc\.path`")

    def test_its_description_is_what_it_does(self):
        contributes = self.package["contributes"]
        self.assertEqual([one["command"] for one in contributes["commands"]],
                         self.told["commands"])
        properties = contributes["configuration"]["properties"]
        self.assertLessEqual(set(self.told["configured"]), set(properties))
        self.assertEqual(self.told["subscriptions"], 2)
        self.assertTrue(os.path.exists(
            os.path.join(FOLDER, self.package["main"])))
        with open(os.path.join(driver.ROOT, "meson.build"),
                  encoding="utf-8") as file:
            version = re.search(r"version: '([\d.]+)'", file.read()).group(1)
        self.assertEqual(self.package["version"], version)

    def test_its_package_is_complete_and_pinned(self):
        with open(os.path.join(FOLDER, "package-lock.json"),
                  encoding="utf-8") as file:
            text = file.read()
        lock = json.loads(text)["packages"]
        self.assertEqual(lock[""]["version"], self.package["version"])
        for name, locked in lock.items():
            if name:
                self.assertRegex(locked["integrity"], "^sha512-")
        wanted = {**self.package["dependencies"],
                  **self.package["devDependencies"]}
        for name, version in wanted.items():
            self.assertRegex(version, r"^\d+\.\d+\.\d+$")
            self.assertEqual(lock["node_modules/" + name]["version"], version)
        self.assertNotIn("://", text)
        with open(os.path.join(FOLDER, self.package["icon"]), "rb") as file:
            head = file.read(24)
        self.assertEqual(head[:8], b"\x89PNG\r\n\x1a\n")
        self.assertEqual(struct.unpack(">II", head[16:]), (128, 128))
        self.assertEqual(self.package["license"], "Apache-2.0")

    @unittest.skipUnless(shutil.which("npm"), "there is no npm")
    def test_its_own_tests_pass(self):
        done = subprocess.run(["npm", "test"], cwd=FOLDER, check=False,
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    if shutil.which("node") is None:
        print("skipped: there is no node")
        sys.exit(77)
    unittest.main()
