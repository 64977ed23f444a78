"""The pages of the site, without the generator that makes HTML of them.

`tests/bootstrap site` builds all of it and checks every link. Here the pages
are staged, which needs the program and mandoc alone, and their links are
compared with the staged files.
"""

import importlib.util
import os
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.environ["SHARDC_SOURCE_ROOT"]
BIN = os.environ["SHARDC_BIN"]
SITE = os.path.join(ROOT, "packaging", "site")
sys.dont_write_bytecode = True
sys.path.insert(0, SITE)


def load(name):
    spec = importlib.util.spec_from_file_location(
        name, os.path.join(SITE, name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


links = load("links")
make = load("make")


@unittest.skipUnless(shutil.which("mandoc"), "mandoc is not installed")
class Staged(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        subprocess.run([sys.executable, "-B", os.path.join(SITE, "make.py"),
                        BIN, folder.name, "--stage"], check=True)
        cls.docs = os.path.join(folder.name, "docs")
        cls.files = {
            os.path.relpath(os.path.join(here, name), cls.docs)
            for here, _, names in os.walk(cls.docs) for name in names}

    def read(self, page):
        with open(os.path.join(self.docs, page), encoding="utf-8") as file:
            return file.read()

    def test_every_link_has_a_file(self):
        checked = 0
        for page in self.files:
            if not page.endswith(".md"):
                continue
            for link in make.LINK.findall(make.CODE.sub("", self.read(page))):
                path = link.partition("#")[0]
                if not path or re.match("[a-z]+:", path):
                    continue
                self.assertIn(posixpath.normpath(posixpath.join(
                    posixpath.dirname(page), path)), self.files, page)
                checked += 1
        self.assertGreater(checked, 200)

    def test_every_diagnostic_has_a_page(self):
        with open(os.path.join(ROOT, "docs", "diagnostics.md"),
                  encoding="utf-8") as file:
            codes = re.findall(r"^\| (SHD\d+) \| (\S+)", file.read(),
                               re.MULTILINE)
        self.assertGreater(len(codes), 100)
        for code, name in codes:
            text = self.read(f"diagnostics/{code}.md")
            self.assertTrue(text.startswith(f"# {code} {name}\n"))
            self.assertIn("\n## Why that is bad\n", text)
            self.assertIn("\n## Example\n", text)
            self.assertIn(f"(diagnostics/{code}.md)",
                          self.read("diagnostics.md"))

    def test_every_schema_and_manual_page_is_there(self):
        for name in os.listdir(os.path.join(ROOT, "schemas")):
            if name.endswith(".json"):
                self.assertIn("schemas/" + name, self.files)
        for name in os.listdir(os.path.join(ROOT, "man")):
            if re.search(r"\.\d$", name):
                self.assertIn('class="manual-text"',
                              self.read(f"man/{name}.md"))

    def test_every_page_of_the_documentation_is_in_the_navigation(self):
        def pages(nav):
            for entry in nav:
                for target in entry.values():
                    yield from [target] if isinstance(target, str) else \
                        pages(target)
        shown = set(pages(make.navigation([], None)))
        for here, _, names in os.walk(os.path.join(ROOT, "docs")):
            for name in names:
                path = os.path.relpath(os.path.join(here, name), ROOT)
                if name.endswith(".md"):
                    self.assertIn(make.page_of(path), shown)
        self.assertLessEqual(shown, self.files)

    def test_pictures_and_a_report_are_drawn(self):
        for name in ("mesh.svg", "plan.svg", "report.html"):
            self.assertIn("pictures/" + name, self.files)
        self.assertLessEqual({"icon.svg", "site.css"}, self.files)


class Links(unittest.TestCase):
    def problems(self, text, other='<h1 id="here">Other</h1>'):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "below"))
            for name, content in (("index.html", text),
                                  ("below/index.html", other),
                                  ("a.json", "{}")):
                with open(os.path.join(folder, name), "w",
                          encoding="utf-8") as file:
                    file.write(content)
            return [line.partition("` ")[2] for line in links.dead(folder)[0]]

    def test_good_links_are_accepted(self):
        self.assertEqual(self.problems(
            '<p id="top2"><a href="below/">a</a><a href="below/#here">b</a>'
            '<a href="/a.json">c</a><a href="#top2">d</a><a href="mailto:x">e'
            '</a><a href="https://example.org/">f</a>'), [])

    def test_dead_links_are_found(self):
        for text, expected in (
                ('<a href="gone/">', "has no target"),
                ('<a href="below/#gone">', "has no such fragment"),
                ('<a href="#gone">', "has no such fragment"),
                ('<a href="../up.html">', "leaves the site"),
                ('<img src="gone.svg">', "has no target"),
                ('<script src="https://example.org/a.js">',
                 "is loaded from another host"),
                ('<link rel="stylesheet" href="//example.org/a.css">',
                 "is loaded from another host")):
            with self.subTest(text):
                self.assertEqual(self.problems(text), [expected])


if __name__ == "__main__":
    unittest.main()
