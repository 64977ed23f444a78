"""The manual agrees with the program and the schemas, and is well formed."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import driver
from driver import ROOT, Case, run

MAN = os.path.join(ROOT, "man")
FORMATS = ["manifest", "mesh", "operations", "plan", "project", "rules",
           "shards", "verify"]


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def commands():
    return driver.commands()


def keys_of(schema):
    """Every property that a schema names."""
    if isinstance(schema, list):
        for part in schema:
            yield from keys_of(part)
    elif isinstance(schema, dict):
        yield from schema.get("properties", {})
        for part in schema.values():
            yield from keys_of(part)


class Man(Case):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.page = os.path.join(cls.folder, "shardc.1")
        cls.codes = os.path.join(cls.folder, "shardc-diagnostics.7")
        for script, *inputs, output in (
                ("make_page.py", "shardc.1.in", "commands.json", cls.page),
                ("make_codes.py", "shardc-diagnostics.7.in",
                 "../docs/diagnostics.md", cls.codes)):
            subprocess.run(
                [sys.executable, "-B", os.path.join(MAN, script),
                 *(os.path.join(MAN, name) for name in inputs), output],
                check=True)
        cls.pages = [cls.page, cls.codes] + [
            os.path.join(MAN, f"shardc-{name}.5") for name in FORMATS]

    def test_every_command_has_its_prose_and_options(self):
        with open(self.page, encoding="utf-8") as file:
            text = file.read()
        sections = dict(part.split("\n", 1) for part in
                        re.split(r"^\.Ss ", text, flags=re.M)[1:])
        self.assertIn("plan", commands())
        for command in commands():
            self.assertRegex(sections[command], r"\A[A-Z][^.]*\.")
            help_text = run(command, "--help").out
            section = sections[command].replace("\\-", "-")
            options = re.findall(r"^  (?:-\w,)?--([a-z0-9-]+)", help_text, re.M)
            self.assertTrue(options)
            for option in options:
                self.assertRegex(section, rf"(?m)^\.It.* Fl -{option}\b")
            self.assertEqual(
                len(re.findall(r"^\.It Fl", section, re.M)), len(options))

    def test_every_diagnostic_is_listed(self):
        with open(self.codes, encoding="utf-8") as file:
            listed = re.findall(r"^\.It (SHD\d{3}) ", file.read(), re.M)
        known = re.findall(r"^\| (SHD\d{3}) ",
                           run("explain", "--codes").out, re.M)
        self.assertGreater(len(known), 50)
        self.assertEqual(listed, known)

    def test_every_key_of_a_format_is_described(self):
        for name in FORMATS:
            schema = json.loads(read("schemas", f"{name}.schema.json"))
            words = set(re.findall(
                r"[a-z_0-9]+", "\n".join(re.findall(
                    r"^\.(?:It )?(?:Ic|Pq Ic).*", read(
                        "man", f"shardc-{name}.5"), re.M))))
            # The table of tokens holds axis rules in its cells.
            words |= set(re.findall(r"Ta Ic ([a-z_]+)",
                                    read("man", f"shardc-{name}.5")))
            # A field of the reference has the name of an axis rule and `_axis`.
            words |= {word + "_axis" for word in words}
            # A project's meshes are described in their own page.
            if name == "project":
                words |= set(keys_of(json.loads(
                    read("schemas", "mesh.schema.json"))))
                # And its stages in that of rules.
                rules = json.loads(read("schemas", "rules.schema.json"))
                for part in ("stages", "stackedLayers", "scheduleFile"):
                    words |= set(keys_of(rules["definitions"][part]))
            missing = sorted(set(keys_of(schema)) - words)
            self.assertEqual(missing, [], name)

    def test_the_examples_of_formats_can_be_read(self):
        for name in ("manifest", "mesh", "rules"):
            with self.subTest(name):
                block = re.search(
                    r"^\.Sh EXAMPLES\n\.Bd -literal.*?\n(.*?)^\.Ed$",
                    read("man", f"shardc-{name}.5"), re.M | re.S)
                path = os.path.join(self.folder, f"{name}.yaml")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(block.group(1).replace("\\e", "\\"))
                done = run("show", name, f"--{name}", path)
                self.assertEqual((done.rc, done.err), (0, ""), done)

    def lint(self, *command):
        for page in self.pages:
            done = subprocess.run([*command, page], capture_output=True,
                                  text=True, check=False)
            self.assertEqual(done.stdout + done.stderr, "", page)
            self.assertEqual(done.returncode, 0)

    @unittest.skipUnless(shutil.which("mandoc"), "no mandoc")
    def test_mandoc_finds_nothing(self):
        self.lint("mandoc", "-T", "lint", "-W", "warning")

    @unittest.skipUnless(shutil.which("groff"), "no groff")
    def test_groff_finds_nothing(self):
        self.lint("groff", "-mdoc", "-ww", "-z")


if __name__ == "__main__":
    unittest.main()
