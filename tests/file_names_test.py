"""Comments and documents name only files that exist, and no file twice in a row."""

import os
import re
import subprocess
import unittest

ROOT = os.environ.get(
    "SHARDC_SOURCE_ROOT",
    os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
CPP = (".cc", ".h")
# A C++ file anywhere, and a script below a folder of this project: documents
# also name Python files of their readers.
NAMED = re.compile(
    r"(?<![\w./*{}<>-])((?:[\w-]+/)*[\w-]+\.(?:cc|h)|"
    r"(?:bench|packaging|playground|python|src|tests|texts)/(?:[\w-]+/)*[\w-]+\.py)"
    r"(?![\w/]|\.\w)")
COMMENT = {".cc": re.compile(r"//(.*)"), ".h": re.compile(r"//(.*)"),
           ".py": re.compile(r"(?:^|\s)#(.*)"),
           ".build": re.compile(r"(?:^|\s)#(.*)"), ".md": re.compile(r"(.*)")}
# Files of other projects, and one that a draw of mutants writes.
OTHERS = {"tuning.cc", "re2/parse.cc", "arm_sve.h", "mutant.h"}
# Documents of what was, and documents that show files which a reader makes.
LEFT_OUT = ("CHANGELOG.md", "docs/extending.md", "testdata/", "examples/")
INCLUDED = re.compile(r'#\s*include\s*[<"]([^>"]+)[>"]')


def listed():
    return subprocess.run(
        ["git", "-C", ROOT, "ls-files", "--cached", "--others",
         "--exclude-standard"], check=True, stdout=subprocess.PIPE,
        encoding="utf-8").stdout.split("\n")


def comments(name, text):
    """(number, text) of the comments or the lines of a document."""
    pattern = COMMENT[os.path.splitext(name)[1]]
    for number, line in enumerate(text.split("\n"), 1):
        found = pattern.search(line)
        if found:
            yield number, found[1]


def named(text):
    return NAMED.findall(text)


class FileNames(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.files = [name for name in listed()
                     if os.path.isfile(os.path.join(ROOT, name))]
        cls.texts = {}
        for name in cls.files:
            if os.path.splitext(name)[1] in COMMENT and \
                    not name.startswith(LEFT_OUT):
                with open(os.path.join(ROOT, name), encoding="utf-8") as file:
                    cls.texts[name] = file.read()
        cls.ends = {"/" + name for name in cls.files}
        cls.ends |= {"/" + header for text in cls.texts.values()
                     for header in INCLUDED.findall(text)}

    def exists(self, name):
        return any(path.endswith("/" + name) for path in self.ends)

    def test_every_named_file_exists(self):
        missing, counted = [], 0
        for path, text in self.texts.items():
            for number, comment in comments(path, text):
                for name in named(comment):
                    counted += 1
                    if name not in OTHERS and not self.exists(name):
                        missing.append(f"{path}:{number}: {name}")
        self.assertGreater(counted, 200)
        self.assertEqual(missing, [], "\n".join(missing))

    def test_no_file_is_named_twice_in_a_row(self):
        twice = []
        for path, text in self.texts.items():
            whole = " ".join(" ".join(
                comment for _, comment in comments(path, text)).split())
            twice += [f"{path}: {found[0]}" for found in
                      re.finditer(r"([\w/]+\.(?:cc|h|py)),? (?:and|or|listed in) "
                                  r"\1(?!\w)", whole)]
        self.assertEqual(twice, [], "\n".join(twice))

    def test_what_counts_as_a_name(self):
        self.assertEqual(
            named("src/step/op_def.cc, `mesh.h`, tests/rooms_test.py, train.py, "
                  "*.cc, _simd.cc"),
            ["src/step/op_def.cc", "mesh.h", "tests/rooms_test.py", "_simd.cc"])


if __name__ == "__main__":
    unittest.main()
